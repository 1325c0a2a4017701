/** Shows the settings of a replay: speed, loop, skipped gaps and extra latency. */
import { useEffect, useState } from 'preact/hooks';
import { formatShortDuration } from '../../model/wording/exact_times.ts';
import { formatSpeed, placeOfSpeed, SPEED_SCALE, SPEEDS } from '../replay/settings.ts';
import type { ShownSettings } from '../replay/settings_in_link.ts';

interface SettingsProps {
  settings: ShownSettings;
  isOff: boolean;
  press: (key: string) => () => void;
  onSpeed: (speedFactor: number) => void;
}

export function ReplaySettings({ settings, isOff, press, onSpeed }: SettingsProps) {
  const { speed_factor: speedFactor, loop, max_gap_ns, extra_latency_ns } = settings;
  return (
    <>
      <label>
        Speed
        <select
          disabled={isOff}
          value={String(speedFactor)}
          onChange={({ currentTarget }) => onSpeed(Number(currentTarget.value))}
        >
          {listSpeeds(speedFactor).map((speed) => (
            <option key={speed} value={String(speed)}>
              {formatSpeed(speed)}
            </option>
          ))}
        </select>
      </label>
      <SpeedSlider speedFactor={speedFactor} isOff={isOff} onSpeed={onSpeed} />
      <label title="begin again at the end (O)">
        <input type="checkbox" disabled={isOff} checked={loop} onChange={press('O')} />
        loop
      </label>
      <label title="cut times in which nothing is under way (I)">
        <input type="checkbox" disabled={isOff} checked={max_gap_ns !== null} onChange={press('I')} />
        skip idle
      </label>
      <button type="button" disabled={isOff} onClick={press('L+Shift')} title="less extra latency (Shift+L)">
        −<span class="spoken">less extra latency</span>
      </button>
      <span>+{formatShortDuration(BigInt(extra_latency_ns))} each</span>
      <button type="button" disabled={isOff} onClick={press('L')} title="more extra latency (L)">
        +<span class="spoken">more extra latency</span>
      </button>
    </>
  );
}

/** Time after which the slider drops a chosen speed that the session has not adopted. */
const CHOSEN_MS = 3000;

/**
 * Shows the chosen speed until the session has adopted it, so that keys in quick succession continue from the chosen
 * speed, not from the session's old one.
 */
function SpeedSlider({
  speedFactor,
  isOff,
  onSpeed,
}: Omit<SettingsProps, 'settings' | 'press'> & { speedFactor: number }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const place = placeOfSpeed(speedFactor);
  useEffect(() => {
    if (chosen === null) return undefined;
    if (chosen === place) setChosen(null);
    const timer = setTimeout(() => setChosen(null), CHOSEN_MS);
    return () => clearTimeout(timer);
  }, [chosen, place]);
  return (
    <input
      type="range"
      class="short"
      aria-label="Speed in steps"
      aria-valuetext={formatSpeed(chosen === null ? speedFactor : SPEED_SCALE[chosen]!)}
      min="0"
      max={SPEED_SCALE.length - 1}
      value={chosen ?? place}
      disabled={isOff}
      onInput={({ currentTarget }) => {
        setChosen(Number(currentTarget.value));
        onSpeed(SPEED_SCALE[Number(currentTarget.value)]!);
      }}
    />
  );
}

/** Lists the speeds to choose from, including the session's speed, which another client may have set. */
function listSpeeds(speed: number): readonly number[] {
  return SPEEDS.includes(speed) ? SPEEDS : [...SPEEDS, speed].sort((a, b) => a - b);
}
