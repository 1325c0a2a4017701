/**
 * What the fields of each event type stand for, whatever their names are: what it did, where, and how much. They are
 * derived from the definitions in bpf/schema.
 */
import { EVENTS, type EventDefinition } from '../../../bpf/schema/index.ts';
import type { Kind } from '../../../bpf/schema/kinds.ts';
import { ORIGINS_MAX } from '../../../bpf/schema/kinds.ts';
import { fieldsOf, type NamedField } from './named_fields.ts';
import { originColumns } from './row_layout.ts';

export interface EventRoles {
  /** Id of the event type. */
  id: number;
  /** The operation or the system call. */
  operation: NamedField | undefined;
  /** The file, or the device. */
  place: NamedField | undefined;
  /** Number of bytes that were asked for. */
  bytes: NamedField | undefined;
  /** Wait in a queue, nanoseconds. */
  queue: NamedField | undefined;
  /** Service and transaction of the task that queued it. */
  queuer: NamedField | undefined;
  /** Owners of the data that it carries. */
  origins: NamedField | undefined;
}

const isOperation = (name: string, { labels }: Kind) => labels !== undefined && /^(operation|syscall)$/.test(name);
const isPlace = (name: string, { source }: Kind) => source === 'file' || (source === 'text' && name === 'device');
const isBytes = (name: string, { source }: Kind) => source === 'value' && /^bytes(_requested)?$/.test(name);
const isQueue = (name: string, { source }: Kind) => source === 'value' && name === 'queue_ns';
const isQueuer = (_: string, { source }: Kind) => source === 'queuer';
const isOrigins = (_: string, { source }: Kind) => source === 'origins';

function rolesOf(event: EventDefinition): EventRoles {
  const first = (isWanted: (name: string, kind: Kind) => boolean) => fieldsOf(event, isWanted)[0];
  return {
    id: event.id,
    operation: first(isOperation),
    place: first(isPlace),
    bytes: first(isBytes),
    queue: first(isQueue),
    queuer: first(isQueuer),
    origins: first(isOrigins),
  };
}

export const EVENT_ROLES: readonly EventRoles[] = EVENTS.map(rolesOf);

/** The column with the context of a field's queuer. */
export const queuerContext = ({ column }: NamedField) => `${column}_context`;

/** Columns that a scan must read for the fields with these roles. */
export const ROLE_COLUMNS: readonly string[] = EVENT_ROLES.flatMap((roles) => {
  const { operation, place, bytes, queue, queuer, origins } = roles;
  return [
    ...[operation, place, bytes, queue].flatMap((field) => (field ? [field.column] : [])),
    ...(queuer ? [queuerContext(queuer)] : []),
    ...(origins ? originColumns(origins.column, ORIGINS_MAX) : []),
  ];
});
