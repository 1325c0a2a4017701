/** Which columns hold the contexts and services that an event belongs to: its own, and those of its origins. */
import { COLUMNS, type Column } from '../../bpf/schema/columns.ts';

export interface OwnerColumns {
  /** 0: the event's own. */
  eventType: number;
  context: Column;
  service: Column;
}

function columnNamed(name: string): Column {
  const column = COLUMNS.find((candidate) => candidate.name === name);
  if (!column) throw new Error(`the schema has no column ${name}`);
  return column;
}

export const OWN: OwnerColumns = { eventType: 0, context: columnNamed('context'), service: columnNamed('service') };

/** One for each slot of each event type that has origins. */
export const ORIGINS: readonly OwnerColumns[] = COLUMNS.filter(
  (column) => column.source === 'origins' && column.name.endsWith('_context'),
).map((context) => ({
  eventType: context.eventType,
  context,
  service: columnNamed(context.name.replace(/_context$/, '_service')),
}));

export const OWNERS: readonly OwnerColumns[] = [OWN, ...ORIGINS];
