/** Formats a row of the newest events as texts. */

import { LOSS_CAUSES } from '../../../bpf/schema/losses.ts';
import { parseJson } from '../../base/exact_json.ts';
import type { ExactInteger } from '../../contract/received.ts';
import { formatExactBytes, formatQuantity } from '../../model/wording/amounts.ts';
import { formatExactDuration, groupDigits } from '../../model/wording/exact_times.ts';
import { formatWallClock } from '../numbers/wall_clock.ts';
import type { NewestRow } from './newest.ts';

/** Content of a `lost` frame. */
export interface LostFrame {
  lost: number;
  cause: string;
  from: ExactInteger;
  to: ExactInteger;
  node: string;
}

/** Headings in the same order as the cells. */
export const LIVE_HEADINGS = [
  ...['Time (UTC)', 'Duration', 'Call', 'File or device', 'Result', 'Bytes', 'Service', 'Command', 'pid', 'Node'],
  ...['Transaction', 'Event id'],
] as const;

/** The fields of an API event that a row shows. */
interface LiveEvent {
  event_id: string;
  event_type: string;
  timestamp_ns: ExactInteger;
  duration_ns: ExactInteger;
  service_name: string;
  transaction_id: string | null;
  node: string;
  pid: number;
  comm: string;
  result: ExactInteger;
  error: string | null;
  syscall?: string;
  operation?: string;
  file?: string | null;
  device?: string | null;
  bytes?: ExactInteger | null;
  bytes_requested?: ExactInteger | null;
}

export interface RowTexts {
  /** One text for each heading; empty if the event has no such value. Null if the row is not an event. */
  cells: readonly string[] | null;
  /** Text in place of the cells, or in addition to them. */
  note: string;
  transactionId: string | null;
  eventId: string | null;
}

/**
 * Builds the texts of a row. `shown` formats recorded names for display in the note; cells contain names as recorded.
 */
export function buildRowTexts({ kind, text }: NewestRow, shown: (name: string) => string): RowTexts {
  const nothing = { cells: null, transactionId: null, eventId: null };
  if (kind === 'skipped') return { ...nothing, note: text };
  if (kind === 'lost') return { ...nothing, note: formatLoss(parseJson(text) as LostFrame, shown) };
  const event = parseJson(text) as LiveEvent;
  const bytes = event.bytes_requested ?? event.bytes ?? null;
  const cells = [
    ...[formatWallClock(BigInt(event.timestamp_ns)), formatExactDuration(BigInt(event.duration_ns))],
    ...[event.syscall ?? event.operation ?? event.event_type, event.file ?? event.device ?? ''],
    ...[event.error ?? groupDigits(event.result), bytes === null ? '' : formatExactBytes(BigInt(bytes))],
    ...[event.service_name, event.comm, String(event.pid), event.node],
    ...[event.transaction_id ?? '', event.event_id],
  ];
  const note = kind === 'late' ? 'late' : '';
  return { cells, note, transactionId: event.transaction_id, eventId: event.event_id };
}

const CAUSES: ReadonlyMap<string, string> = new Map(Object.entries(LOSS_CAUSES));

/** Describes a loss; a count of 0 means that the number of lost events is not known. */
function formatLoss({ lost, cause, from, to, node }: LostFrame, shown: (name: string) => string): string {
  const what = lost > 0 ? `at least ${formatQuantity(lost, 'event')} not recorded` : 'events not recorded, uncounted,';
  const when = `${formatWallClock(BigInt(from))} to ${formatWallClock(BigInt(to))}`;
  return `${what} on ${shown(node)}, ${when}: ${CAUSES.get(cause) ?? shown(cause)}`;
}
