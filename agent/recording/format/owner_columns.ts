/**
 * Columns with contexts and services: of the event itself, of its origins, and of the task that queued it (the queuer).
 */
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import { ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';

const ORIGIN_SOURCE = ATTRIBUTION_SOURCES.indexOf('origin');

export interface OwnerColumns {
  /** The event type that has the columns; 0 for the columns of the event's own context and service. */
  eventType: number;
  context: Column;
  service: Column;
}

function findColumn(name: string): Column {
  const column = COLUMNS.find((candidate) => candidate.name === name);
  if (!column) throw new Error(`the schema has no column ${name}`);
  return column;
}

export const OWN: OwnerColumns = { eventType: 0, context: findColumn('context'), service: findColumn('service') };

function selectOwnerColumns(source: Column['source']): OwnerColumns[] {
  return COLUMNS.filter((column) => column.source === source && column.name.endsWith('_context')).map((context) => ({
    eventType: context.eventType,
    context,
    service: findColumn(context.name.replace(/_context$/, '_service')),
  }));
}

/** The columns of each origin slot, for each event type that has origins. */
export const ORIGINS: readonly (OwnerColumns & { bytes: Column })[] = selectOwnerColumns('origins').map((owner) => ({
  ...owner,
  bytes: findColumn(owner.context.name.replace(/_context$/, '_bytes')),
}));

/** The columns of the queuer, for each event type that has a queuer. */
export const QUEUERS: readonly OwnerColumns[] = selectOwnerColumns('queuer');

/**
 * Returns whether the event of a row writes back data that its owner wrote earlier. Such an event counts for the
 * owner's transaction, but the transaction's caller does not wait for it: other threads write the data, mostly seconds
 * later. `source` is a value of the column `context_source`.
 */
export function isWrittenBack(source: number): boolean {
  return source === ORIGIN_SOURCE;
}

export const OWNERS: readonly OwnerColumns[] = [OWN, ...ORIGINS, ...QUEUERS];
