/** Formats a replay as text. */
import { printable } from '../../../agent/output/printable.ts';
import { formatDuration } from '../print/display.ts';
import { what } from '../print/event_table.ts';
import { newTable, type Table, type TableColumn } from '../print/table.ts';
import type { PlayedEvent, ReplaySession } from './remote_session.ts';

const NONE = '-';
const ns = (value: number | bigint | null) => (value === null ? '?' : formatDuration(BigInt(value)));

const COLUMNS: readonly TableColumn<PlayedEvent>[] = [
  { heading: 'OFFSET', cell: ({ replay }) => `+${ns(replay.offset_ns)}`, align: 'right' },
  { heading: 'DURATION', cell: ({ replay }) => ns(replay.duration_ns), align: 'right' },
  { heading: 'TYPE', cell: (event) => event.event_type },
  { heading: 'WHAT', cell: what },
  { heading: 'BYTES', cell: bytes, align: 'right' },
  { heading: 'LATENESS', cell: ({ replay }) => ns(replay.lateness_ns), align: 'right' },
  {
    heading: '',
    cell: remarks,
  },
];

export function newPlayedTable(): Table<PlayedEvent> {
  return newTable(COLUMNS);
}

export function bytes(event: PlayedEvent): string {
  if (event.event_type === 'block_io') return event.bytes.toString();
  return event.event_type !== 'sys_sync' && event.error === null ? event.result.toString() : NONE;
}

/** Describes deviations: an error, or an end after the timeout. */
export function remarks({ error, replay }: PlayedEvent): string {
  return [error ?? '', replay.after_timeout ? 'after timeout' : ''].join(' ').trim();
}

export function progressLine(session: ReplaySession, { replay }: PlayedEvent): string {
  const events = `${replay.index + 1}/${session.event_count} events`;
  return `${events}, at ${ns(replay.offset_ns)} of ${ns(session.replay_duration_ns)}, speed ${session.speed_factor}`;
}

export function latenessText({ p50_ns, p99_ns, max_ns, late_events }: ReplaySession['lateness']): string {
  return `lateness p50 ${ns(p50_ns)}, p99 ${ns(p99_ns)}, max ${ns(max_ns)}, ${late_events} late`;
}

export function summaryLine(session: ReplaySession): string {
  const { lateness, timeout_ns, timeout_event_id } = session;
  const parts = [
    `${session.state} after ${session.event_index} of ${session.event_count} events`,
    `recorded ${ns(session.duration_ns)}, replayed ${ns(session.replay_duration_ns)} at speed ${session.speed_factor}`,
    latenessText(lateness),
  ];
  if (timeout_ns !== null)
    parts.push(
      timeout_event_id === null
        ? `all within the timeout of ${ns(timeout_ns)}`
        : `times out after ${ns(timeout_ns)}, in event ${printable(timeout_event_id)}`,
    );
  return parts.join('; ');
}
