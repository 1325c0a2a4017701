/** A field for a duration, which is set by a slider with a logarithmic scale, or exactly as text. */
import { useState } from 'preact/hooks';
import { formatDuration, parseDuration } from '../numbers/duration_text.ts';
import { placeOn, type Scale } from '../what_if/scale.ts';

interface Props {
  label: string;
  scale: Scale;
  value: bigint | null;
  leastNs: bigint;
  mostNs: bigint;
  /** Text for a duration without a limit, if the scale includes null. */
  none?: string;
  onValue: (value: bigint | null) => void;
}

export function DurationField({ label, scale, value, none, onValue, ...bounds }: Props) {
  const formatField = (ns: bigint | null) => (ns === null ? (none ?? '') : formatDuration(ns));
  return (
    <>
      <input
        type="range"
        class="short"
        aria-label={label}
        aria-valuetext={formatField(value)}
        min="0"
        max={scale.length - 1}
        value={placeOn(scale, value)}
        onInput={({ currentTarget }) => onValue(scale[Number(currentTarget.value)]!)}
      />
      <ExactField
        label={`${label}, exactly`}
        text={formatField(value)}
        onText={(text) => {
          const isNone = none !== undefined && (text === '' || text === none);
          const ns = isNone ? null : parseDuration(text);
          if (ns === null && !isNone) return 'a duration, such as 5 ms or 31 302 187 ns';
          if (ns !== null && (ns < bounds.leastNs || ns > bounds.mostNs))
            return `from ${formatDuration(bounds.leastNs)} to ${formatDuration(bounds.mostNs)}`;
          onValue(ns);
          return null;
        }}
      />
    </>
  );
}

interface ExactProps {
  label: string;
  text: string;
  /** Takes the typed text; if it is refused, returns a description of valid text. */
  onText: (text: string) => string | null;
}

export function ExactField({ label, text, onText }: ExactProps) {
  const [draft, setDraft] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  return (
    <>
      <input
        type="text"
        class="exact"
        aria-label={label}
        aria-invalid={problem !== null}
        value={draft ?? text}
        onInput={({ currentTarget }) => setDraft(currentTarget.value)}
        onChange={({ currentTarget }) => {
          const wrong = onText(currentTarget.value.trim());
          setProblem(wrong);
          if (wrong === null) setDraft(null);
        }}
      />
      {problem !== null && (
        <span class="failure" role="alert">
          must be {problem}
        </span>
      )}
    </>
  );
}
