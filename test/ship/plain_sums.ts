/** Sums of transactions, traces and minutes, computed from events one by one, and the same from the tables. */
import type { ClickHouseServer } from '../clickhouse/server.ts';
import { type CentreRow, rowsAt } from './centre.ts';
import { type PlainEvent, servicesOf } from './plain_events.ts';

type Sums = Record<string, string>;

const largest = (values: readonly bigint[]) => values.reduce((a, b) => (a > b ? a : b), 0n);
const least = (values: readonly bigint[]) => values.reduce((a, b) => (a < b ? a : b), UNBOUNDED);
const sum = (values: readonly bigint[]) => values.reduce((a, b) => a + b, 0n);
const UNBOUNDED = 2n ** 64n;

/** Events by key, of which each may have several. */
function grouped(events: readonly PlainEvent[], keysOf: (event: PlainEvent) => string[]): Map<string, PlainEvent[]> {
  const groups = new Map<string, PlainEvent[]>();
  for (const event of events)
    for (const key of new Set(keysOf(event))) {
      const known = groups.get(key);
      if (known) known.push(event);
      else groups.set(key, [event]);
    }
  return groups;
}

const textsOf = (sums: Record<string, unknown>): Sums =>
  Object.fromEntries(Object.entries(sums).map(([name, value]) => [name, String(value)]));

/** The same list as `summariesAt` returns; `id`: which id of an owner counts. */
export function summariesOf(events: readonly PlainEvent[], id: 'transaction' | 'trace'): Record<string, Sums> {
  const groups = grouped(events, (event) =>
    [event[id], ...event.origins.map((origin) => origin[id])].filter((text) => text !== ''),
  );
  return Object.fromEntries(
    [...groups].sort().map(([key, own]) => {
      const isBack = (event: PlainEvent) => event[id] !== key || event.source === 'origin';
      const back = own.filter(isBack);
      const waited = own.filter((event) => !isBack(event));
      const ends = (some: readonly PlainEvent[]) => largest(some.map(({ at, duration }) => at + duration));
      const ofKey = own.flatMap((event) => [
        ...(event[id] === key ? [event.service] : []),
        ...event.origins.filter((origin) => origin[id] === key).map(({ service }) => service),
      ]);
      const bytes = back.flatMap(({ origins }) => origins.filter((origin) => origin[id] === key));
      return [
        key,
        textsOf({
          n: own.length,
          errors: own.filter(({ result }) => result < 0n).length,
          t_min: least(own.map(({ at }) => at)),
          t_max: largest(own.map(({ at }) => at)),
          end_max: ends(waited),
          own_min: waited.length > 0 ? least(waited.map(({ at }) => at)) : UNBOUNDED,
          slowest: largest((waited.length > 0 ? waited : back).map(({ duration }) => duration)),
          last_number: Math.max(...own.map(({ number }) => number)),
          back: back.length,
          back_bytes: sum(bytes.map((origin) => origin.bytes)),
          back_end: ends(back),
          services: [...new Set(ofKey)].filter((text) => text !== '').sort(),
        }),
      ];
    }),
  );
}

/** `by_id`: of a kind; `transaction`: the rows of one service. */
export async function summariesAt(
  server: ClickHouseServer,
  where: { kind: number } | { service: string },
): Promise<Record<string, Sums>> {
  const [table, condition] =
    'kind' in where ? ['by_id', `kind = ${where.kind}`] : ['transaction', `service = '${where.service}'`];
  const latest = `SELECT *, written_back_count < n AS has_waited FROM kreplay.${table} FINAL WHERE ${condition}`;
  return summariesIn(await rowsAt(server, latest));
}

/** Sums up rows of a table, of which `has_waited` says whether not all of their events were written back later. */
export function summariesIn(rows: readonly CentreRow[]): Record<string, Sums> {
  const byId = new Map<string, CentreRow[]>();
  for (const row of rows) byId.set(String(row.id), [...(byId.get(String(row.id)) ?? []), row]);
  return Object.fromEntries([...byId].sort().map(([id, own]) => [id, textsOf(summaryOf(own))]));
}

function summaryOf(rows: readonly CentreRow[]): Record<string, unknown> {
  const column = (name: string, some = rows) => some.map((row) => BigInt(row[name] as string));
  const waited = rows.filter((row) => Number(row.has_waited) === 1);
  return {
    n: sum(column('n')),
    errors: sum(column('errors')),
    t_min: least(column('t_min')),
    t_max: largest(column('t_max')),
    end_max: largest(column('end_max')),
    own_min: least(column('own_min', waited)),
    slowest: largest(column('slowest_duration_ns', waited.length > 0 ? waited : rows)),
    last_number: largest(column('last_number')),
    back: sum(column('written_back_count')),
    back_bytes: sum(column('written_back_bytes')),
    back_end: largest(column('written_back_end_ns')),
    services: [...new Set(rows.flatMap((row) => row.services as string[]))].filter((text) => text !== '').sort(),
  };
}

const MINUTE_NS = 60_000_000_000n;

function ownerOf(event: PlainEvent): string {
  const services = servicesOf(event);
  return services.length > 1 ? '*' : (services[0] ?? '');
}

/** The place of a duration in a histogram: exact below 128, then 64 places for each power of two. */
function slotOf(value: bigint): number {
  if (value < 128n) return Number(value);
  const shift = value.toString(2).length - 7;
  return shift * 64 + Number(value >> BigInt(shift));
}

export function statsOf(events: readonly PlainEvent[]): Record<string, Sums> {
  const groups = grouped(events, (event) => [
    JSON.stringify([Number(event.at / MINUTE_NS), ownerOf(event), event.service, event.node, event.type]),
  ]);
  return Object.fromEntries(
    [...groups].sort().map(([key, own]) => {
      const durations = own.map(({ duration }) => duration);
      const counts = new Map<number, number>();
      for (const slot of durations.map(slotOf)) counts.set(slot, (counts.get(slot) ?? 0) + 1);
      const sums = {
        n: own.length,
        errors: own.filter(({ result }) => result < 0n).length,
        bytes: sum(own.map(({ result }) => (result < 0n ? 0n : result))),
        duration: sum(durations),
        max: largest(durations),
        histogram: histogramText(counts),
      };
      return [key, textsOf(sums)];
    }),
  );
}

export async function statsAt(server: ClickHouseServer): Promise<Record<string, Sums>> {
  return statsIn(await rowsAt(server, 'SELECT * FROM kreplay.stat FINAL'));
}

export function statsIn(rows: readonly CentreRow[]): Record<string, Sums> {
  const byKey = new Map<string, CentreRow[]>();
  for (const row of rows) {
    const key = JSON.stringify([Number(row.minute), row.owner, row.service, row.node, row.event_type]);
    byKey.set(key, [...(byKey.get(key) ?? []), row]);
  }
  return Object.fromEntries(
    [...byKey].sort().map(([key, own]) => {
      const column = (name: string) => own.map((row) => BigInt(row[name] as string));
      const wide = (name: string) => sum(column(`${name}_low`)) + (sum(column(`${name}_high`)) << 64n);
      const counts = new Map<number, number>();
      for (const row of own)
        for (const [i, slot] of (row.slots as number[]).entries())
          counts.set(slot, (counts.get(slot) ?? 0) + Number((row.counts as number[])[i]));
      const sums = {
        n: sum(column('n')),
        errors: sum(column('errors')),
        bytes: wide('bytes'),
        duration: wide('duration'),
        max: largest(column('duration_max')),
        histogram: histogramText(counts),
      };
      return [key, textsOf(sums)];
    }),
  );
}

function histogramText(counts: ReadonlyMap<number, number>): string {
  return JSON.stringify([...counts].sort(([a], [b]) => a - b));
}
