import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { formatTime } from '../../base/time_text.ts';
import { formatDuration } from './display.ts';
import type { TextColumn } from './table.ts';

const NONE = '-';

export const EVENT_COLUMNS: readonly TextColumn<ApiEvent>[] = [
  { heading: 'TIME', cell: (event) => formatTime(BigInt(event.timestamp_ns)) },
  { heading: 'DURATION', cell: (event) => formatDuration(BigInt(event.duration_ns)), align: 'right' },
  { heading: 'TYPE', cell: (event) => event.event_type },
  { heading: 'SERVICE', cell: (event) => event.service_name || NONE },
  { heading: 'TRANSACTION', cell: (event) => event.transaction_id ?? NONE },
  { heading: 'PID', cell: (event) => event.pid.toString(), align: 'right' },
  { heading: 'COMM', cell: (event) => event.comm },
  { heading: 'OPERATION', cell: (event) => (event.event_type === 'block_io' ? event.operation : event.syscall) },
  { heading: 'BYTES', cell: formatEventBytes, align: 'right' },
  { heading: 'FILE/DEVICE', cell: (event) => (event.event_type === 'block_io' ? event.device : event.file) ?? NONE },
  { heading: 'ERROR', cell: (event) => event.error ?? '' },
];

export function formatEventBytes(event: ApiEvent): string {
  if (event.event_type === 'block_io') return event.bytes.toString();
  return event.event_type === 'sys_sync' || BigInt(event.result) < 0n ? NONE : event.result.toString();
}

/** Describes the call or the request of an event, and its target. */
export function describeEvent(event: ApiEvent): string {
  return event.event_type === 'block_io'
    ? `${event.operation} ${event.device}`
    : `${event.syscall} ${event.file ?? NONE}`;
}
