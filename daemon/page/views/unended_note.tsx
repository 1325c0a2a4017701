/** Lists calls and requests that have begun but not ended, because they may still increase the shown numbers. */
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
    // With many nodes, the answer contains only the first of them, so the node of the event may be missing.
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
