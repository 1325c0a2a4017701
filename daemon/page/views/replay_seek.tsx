/** The place of the clock, which moves without a new rendering of the bar, and is moved by pointer and keys. */
import { useEffect, useRef } from 'preact/hooks';
import { shortDuration } from '../numbers/exact_times.ts';
import type { Replay } from '../replay/replay.ts';

const STEPS = 1000;

interface Props {
  replay: Replay | null;
  endNs: number;
  isOff: boolean;
  onSeek: (positionNs: bigint) => void;
}

export function ReplaySeek({ replay, endNs, isOff, onSeek }: Props) {
  const input = useRef<HTMLInputElement>(null);
  const text = useRef<HTMLOutputElement>(null);
  const isHeld = useRef(false);
  const heldNs = () => Math.round((Number(input.current!.value) / STEPS) * endNs);
  const release = () => {
    isHeld.current = false;
  };
  useEffect(() => {
    let frame = 0;
    const show = () => {
      const positionNs = isHeld.current ? heldNs() : (replay?.playhead.at(performance.now()) ?? 0);
      const words = `${shortDuration(positionNs)} of ${shortDuration(endNs)}`;
      if (!isHeld.current && input.current)
        input.current.value = String(Math.round((positionNs / Math.max(1, endNs)) * STEPS));
      if (input.current?.getAttribute('aria-valuetext') !== words) input.current?.setAttribute('aria-valuetext', words);
      if (text.current && text.current.textContent !== words) text.current.textContent = words;
      frame = requestAnimationFrame(show);
    };
    show();
    return () => cancelAnimationFrame(frame);
  }, [replay, endNs]);
  return (
    <>
      <input
        ref={input}
        type="range"
        class="seek"
        aria-label="Position"
        min="0"
        max={STEPS}
        disabled={isOff}
        onInput={() => {
          isHeld.current = true;
        }}
        // A pointer that returns to where it began changes nothing.
        onPointerUp={() => setTimeout(release)}
        onBlur={release}
        onChange={() => {
          release();
          onSeek(BigInt(heldNs()));
        }}
      />
      <output ref={text} class="digits" />
    </>
  );
}
