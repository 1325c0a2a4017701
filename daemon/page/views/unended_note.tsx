/** Lists calls and requests that have begun but not ended, next to the numbers that may still grow because of them. */
import type { Coverage, InProgressEvent } from '../../contract/received.ts';
import { formatQuantity } from '../numbers/amounts.ts';
import { formatShortDuration } from '../numbers/exact_times.ts';
import { formatName } from './names.ts';

const SHOWN_MAX = 5;

export function UnendedNote({ coverage: { in_progress, nodes } }: { coverage: Coverage }) {
  if (!in_progress) return null;
  const { count, events } = in_progress;
  const findRecordedUntil = ({ node, timestamp_ns }: InProgressEvent) =>
    BigInt(nodes.find((known) => known.node === node)?.recorded_until ?? timestamp_ns);
  const shown = events.slice(0, SHOWN_MAX);
  const texts = shown.map((event) => {
    const lastedNs = findRecordedUntil(event) - BigInt(event.timestamp_ns);
    return `${formatUnended(event)} by ${formatName(event.comm)}, for ${formatShortDuration(Number(lastedNs))} so far`;
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
