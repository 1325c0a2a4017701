/** Fields for the two ends of a window, in the time zone of the browser. */
import { formatLocalTime, parseLocalTime } from '../numbers/local_time.ts';
import { usePage } from './context.ts';
import { ExactField } from './duration_field.tsx';

interface Props {
  /** Names of the link's fields that store the window. */
  names: readonly ['from', 'to'] | readonly ['other_from', 'other_to'];
  /** Name of the window; omitted if the view has only one window. */
  label?: string;
}

export function Bounds({ names, label = '' }: Props) {
  const { link, go } = usePage();
  const [fromName, toName] = names;
  const set = (name: (typeof names)[number], text: string) => {
    const ns = parseLocalTime(text);
    if (ns === null && text !== '') return 'after 1970';
    const { [fromName]: first, [toName]: last } = { ...link, [name]: ns };
    if (first !== null && last !== null && first >= last) return 'so that the window begins before it ends';
    go({ [name]: ns });
    return null;
  };
  return (
    <>
      {names.map((name, at) => {
        const text = `${label} ${at === 0 ? 'from' : 'to'}`;
        return (
          // biome-ignore lint/a11y/noLabelWithoutControl: the field is in the component
          <label key={name} title={`local time: ${Intl.DateTimeFormat().resolvedOptions().timeZone}`}>
            {text}
            <ExactField
              label={text}
              type="datetime-local"
              text={formatLocalTime(link[name])}
              onText={(typed) => set(name, typed)}
            />
          </label>
        );
      })}
    </>
  );
}

/** Button that doubles the window's length around its middle; an open end stays open. */
export function ZoomOut() {
  const { link, go } = usePage();
  const { from, to } = link;
  const zoomOut = () => {
    const end = to ?? BigInt(Date.now()) * 1_000_000n;
    const half = end > from! ? (end - from!) / 2n : 0n;
    go({ from: from! > half ? from! - half : 0n, to: to && to + half });
  };
  return (
    <button type="button" disabled={from === null} onClick={zoomOut}>
      Zoom out
    </button>
  );
}
