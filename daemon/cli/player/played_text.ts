/** Formats a replay as text. */
import { escapeControls } from '../../../agent/output/printable.ts';
import { formatDuration } from '../print/display.ts';
import { describeEvent } from '../print/event_table.ts';
import { type AlignedTable, createTextTable, type TextColumn } from '../print/table.ts';
import type { ExactPlayedEvent, ReplaySession } from './remote_session.ts';

const NONE = '-';
const formatNs = (value: number | bigint | null) => (value === null ? '?' : formatDuration(BigInt(value)));

const COLUMNS: readonly TextColumn<ExactPlayedEvent>[] = [
  { heading: 'OFFSET', cell: ({ replay }) => `+${formatNs(replay.offset_ns)}`, align: 'right' },
  { heading: 'DURATION', cell: ({ replay }) => formatNs(replay.duration_ns), align: 'right' },
  { heading: 'TYPE', cell: (event) => event.event_type },
  { heading: 'WHAT', cell: describeEvent },
  { heading: 'BYTES', cell: formatPlayedBytes, align: 'right' },
  { heading: 'LATENESS', cell: ({ replay }) => formatNs(replay.lateness_ns), align: 'right' },
  {
    heading: '',
    cell: formatRemarks,
  },
];

export function createPlayedTable(): AlignedTable<ExactPlayedEvent> {
  return createTextTable(COLUMNS);
}

export function formatPlayedBytes(event: ExactPlayedEvent): string {
  if (event.event_type === 'block_io') return event.bytes.toString();
  return event.event_type !== 'sys_sync' && event.error === null ? event.result.toString() : NONE;
}

/** Formats what is special about an event: an error, or an end after the timeout. */
export function formatRemarks({ error, replay }: ExactPlayedEvent): string {
  return [error ?? '', replay.after_timeout ? 'after timeout' : ''].join(' ').trim();
}

export function formatProgressLine(session: ReplaySession, { replay }: ExactPlayedEvent): string {
  const events = `${replay.index + 1}/${session.event_count} events`;
  return `${events}, at ${formatNs(replay.offset_ns)} of ${formatNs(session.replay_duration_ns)}, speed ${session.speed_factor}`;
}

export function formatLateness({ p50_ns, p99_ns, max_ns, late_events }: ReplaySession['lateness']): string {
  return `lateness p50 ${formatNs(p50_ns)}, p99 ${formatNs(p99_ns)}, max ${formatNs(max_ns)}, ${late_events} late`;
}

export function formatSummaryLine(session: ReplaySession): string {
  const { lateness, timeout_ns, timeout_event_id } = session;
  const parts = [
    `${session.state} after ${session.event_index} of ${session.event_count} events`,
    `recorded ${formatNs(session.duration_ns)}, replayed ${formatNs(session.replay_duration_ns)} at speed ${session.speed_factor}`,
    formatLateness(lateness),
  ];
  if (timeout_ns !== null)
    parts.push(
      timeout_event_id === null
        ? `all within the timeout of ${formatNs(timeout_ns)}`
        : `times out after ${formatNs(timeout_ns)}, in event ${escapeControls(timeout_event_id)}`,
    );
  return parts.join('; ');
}
