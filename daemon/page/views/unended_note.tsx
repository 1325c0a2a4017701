/** Lists calls and requests that have begun but not ended, next to the numbers that may still grow because of them. */
import type { InProgressEvent, ReceivedCoverage } from '../../contract/received.ts';
import { formatQuantity } from '../../model/wording/amounts.ts';
import { formatShortDuration } from '../../model/wording/exact_times.ts';
import { formatName } from '../../model/wording/names.ts';

const SHOWN_MAX = 5;

export function UnendedNote({ coverage: { in_progress, nodes } }: { coverage: ReceivedCoverage }) {
  if (!in_progress) return null;
  const { count, events } = in_progress;
  const shown = events.slice(0, SHOWN_MAX);
  const texts = shown.map((event) => {
    const text = `${formatUnended(event)} by ${formatName(event.comm)}`;
    // The answer names only the first of many nodes.
    const known = nodes.find(({ node }) => node === event.node);
    if (!known) return text;
    const lastedNs = BigInt(known.recorded_until) - BigInt(event.timestamp_ns);
    return `${text}, for ${formatShortDuration(lastedNs)} so far`;
  });
  const rest = count - shown.length;
  const more = rest > 0 ? `; and ${formatQuantity(rest, 'other')}` : '';
  return (
    <p class="loss">
      ▲ In progress{texts.length > 0 && ': '}
      {texts.join('; ')}
      {more}.
    </p>
  );
}

function formatUnended({ syscall, file, operation, device }: InProgressEvent): string {
  if (syscall === undefined) return `${operation} request to ${formatName(device ?? '')}`;
  return file ? `${syscall} of ${formatName(file)}` : syscall;
}
