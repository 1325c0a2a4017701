/** Maps the columns of a recording to the columns of the tables that a segment fills. */
import { createColumnArray } from '../../../bpf/schema/block.ts';
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import type { Fields } from '../../../bpf/schema/define.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { type ColumnHead, EVENT_PARTS, REFERS, type ShipmentPlan } from '../../../bpf/schema/native_shipment.ts';
import { ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';
import { formatTypeName } from '../../clickhouse/native/types.ts';
import { EVENT_COLUMNS, type EventColumn, type SourcePart } from '../../clickhouse/tables/event_columns.ts';
import { BUCKET_NS_DEFAULT, buildTables, type FleetTable, SEVERAL_OWNERS } from '../../clickhouse/tables/schema.ts';
import { typeMask } from '../../recording/codec/segment_facts.ts';
import { isWrittenBack, ORIGINS, OWN } from '../../recording/format/owner_columns.ts';
import { findDictionaryKind } from '../../recording/read/lookup.ts';
import { selectSentColumns } from './table_rows.ts';

/** Tables other than `event` that are filled from events, in the order in which they are sent. */
export const BESIDE_EVENTS = ['by_id', 'transaction', 'stat', 'name'] as const;

/** The tables, built with the default bucket length; their columns do not depend on this length. */
const TABLES = new Map(buildTables(BUCKET_NS_DEFAULT).map((table) => [table.name, table]));

export function findTable(name: string): FleetTable {
  const table = TABLES.get(name);
  if (!table) throw new Error(`there is no table ${name}`);
  return table;
}

const PLACES = new Map(COLUMNS.map(({ name }, place) => [name, place]));

function getColumnPlace(name: string): number {
  const place = PLACES.get(name);
  if (place === undefined) throw new Error(`a recording has no column ${name}`);
  return place;
}

const findPartNumber = (part: (typeof EVENT_PARTS)[number]): number => EVENT_PARTS.indexOf(part);

/** The addon's names for parts that the tables name differently. */
const NATIVE_PARTS: Partial<Record<SourcePart, (typeof EVENT_PARTS)[number]>> = {
  number: 'value',
  event_type: 'word',
  label: 'word',
  text: 'name',
  service: 'name',
  queuer_service: 'name',
  queuer_transaction: 'transaction',
  queuer_trace: 'trace',
};

/** Returns the words that a column's numbers stand for, indexed by number. */
function listColumnWords({ part, source }: EventColumn): string[] {
  if (part === 'event_type') return indexByNumber(EVENTS.map(({ id, name }) => [id, name]));
  if (part !== 'label') return [];
  const fields: Fields = EVENTS.find(({ id }) => id === source.eventType)?.fields ?? {};
  return indexByNumber(fields[source.field]?.kind.labels ?? []);
}

function indexByNumber(words: Iterable<readonly [number, string]>): string[] {
  const list: string[] = [];
  for (const [number, word] of words) {
    while (list.length <= number) list.push('');
    list[number] = word;
  }
  return list;
}

/** Columns that events of all types fill. */
const FIXED: ShipmentPlan['events'] = (['recording', 'number', 'owner', 'node'] as const).map((name) => {
  const type = name === 'recording' || name === 'number' ? 'UInt64' : 'LowCardinality(String)';
  return { name, type, part: findPartNumber(name), column: 0, words: [] };
});

const FROM_EVENTS: ShipmentPlan['events'] = EVENT_COLUMNS.map((column) => ({
  name: column.name,
  type: formatTypeName(column.type),
  part: findPartNumber(NATIVE_PARTS[column.part] ?? (column.part as (typeof EVENT_PARTS)[number])),
  column: getColumnPlace(column.source.name),
  words: listColumnWords(column),
}));

const ORIGIN_TYPES = [...new Set(ORIGINS.map(({ eventType }) => eventType))];

function matchesTypes({ part, source }: EventColumn, mask: bigint): boolean {
  const types = part.startsWith('origin_') ? ORIGIN_TYPES : [source.eventType];
  return types.includes(0) || (typeMask(types) & mask) !== 0n;
}

/**
 * Returns the columns that events of these types fill, and their indexes in the plan. The other columns are not sent
 * and become 0 or ''.
 */
export function selectEventColumns(mask: bigint): { names: string[]; places: Uint32Array } {
  const own = EVENT_COLUMNS.flatMap((column, i) => (matchesTypes(column, mask) ? [FIXED.length + i] : []));
  const places = Uint32Array.from([...FIXED.keys(), ...own]);
  return { names: Array.from(places, (place) => [...FIXED, ...FROM_EVENTS][place]!.name), places };
}

function buildPlanColumn(column: Column): ShipmentPlan['columns'][number] {
  const width = createColumnArray(column.storage, 0).BYTES_PER_ELEMENT;
  return { eventType: column.eventType, width, refers: REFERS[findDictionaryKind(column) ?? 'nothing'] };
}

const listColumnHeads = ({ columns }: FleetTable): ColumnHead[] =>
  selectSentColumns(columns).map(({ name, type }) => ({ name, type: formatTypeName(type) }));

export function buildShipmentPlan({ recordingId, node }: { recordingId: string; node: string }): ShipmentPlan {
  const roles = ['event_type', 'timestamp_ns', 'duration_ns', 'result', 'context_source'];
  const devices = COLUMNS.filter(({ field, source }) => field === 'device' && source === 'text');
  return {
    recording: BigInt(`0x${recordingId}`),
    node,
    columns: COLUMNS.map(buildPlanColumn),
    roles: Uint32Array.from([...roles, OWN.context.name, OWN.service.name], getColumnPlace),
    origins: Uint32Array.from(
      ORIGINS.flatMap(({ eventType, context, service, bytes }) => [
        eventType,
        ...[context, service, bytes].map(({ name }) => getColumnPlace(name)),
      ]),
    ),
    devices: Uint32Array.from(devices, ({ name }) => getColumnPlace(name)),
    writtenBack: ATTRIBUTION_SOURCES.findIndex((_, source) => isWrittenBack(source)),
    severalOwners: SEVERAL_OWNERS,
    typeNames: indexByNumber(EVENTS.map(({ id, name }) => [id, name])),
    events: [...FIXED, ...FROM_EVENTS],
    tables: BESIDE_EVENTS.map((name) => listColumnHeads(findTable(name))),
    serviceKind: 'service',
    deviceKind: 'device',
  };
}
