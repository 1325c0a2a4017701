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
  type?: 'text' | 'datetime-local';
  /** Takes the typed text. Returns null, or a description of valid text if the typed text is refused. */
  onText: (text: string) => string | null;
}

interface Draft {
  typed: string;
  /** Text of the field when the user began to type. If the field gets another text, the draft is ignored. */
  of: string;
  problem: string | null;
}

/**
 * A field whose text is taken only when the user presses Enter or leaves the field: while the user types a year, a
 * time field already contains valid times in the years 2, 20 and 202.
 */
export function ExactField({ label, text, type = 'text', onText }: ExactProps) {
  const [last, setDraft] = useState<Draft | null>(null);
  const draft = last?.of === text ? last : null;
  const problem = draft?.problem ?? null;
  const take = ({ currentTarget: { validity } }: { currentTarget: HTMLInputElement }) => {
    if (!draft) return;
    // An incomplete time has an empty text, so only `badInput` shows that it is wrong.
    const wrong = validity.badInput ? 'whole' : onText(draft.typed.trim());
    setDraft(wrong === null ? null : { ...draft, problem: wrong });
  };
  return (
    <>
      <input
        // Preact's types do not allow a variable that is one of two input types.
        type={type as 'text'}
        step="1"
        class="exact"
        aria-label={label}
        aria-invalid={problem !== null}
        value={draft?.typed ?? text}
        onInput={({ currentTarget }) => setDraft({ typed: currentTarget.value, of: text, problem: null })}
        onBlur={take}
        onKeyDown={(event) => event.key === 'Enter' && take(event)}
      />
      {problem !== null && (
        <span class="failure" role="alert">
          must be {problem}
        </span>
      )}
    </>
  );
}
