/** A server with the tables of a fleet, and `kreplay ship` from recordings of a test into it. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createTables } from '../../agent/clickhouse/tables/changes.ts';
import { readServerVersion } from '../../agent/clickhouse/tables/server_version.ts';
import { type ClickHouseServer, endWithServers, startServer } from '../clickhouse/server.ts';
import { type Ended, type Running, start } from '../daemon/command_line.ts';
import type { Row } from '../daemon/recorded.ts';
import { arrivedAt, countAt, lossesAt } from './centre.ts';
import { endShippingHere } from './here.ts';
import { eventsOf, textOf } from './plain_events.ts';
import { statsAt, statsOf, summariesAt, summariesOf } from './plain_sums.ts';

export async function startFleet(options: Parameters<typeof startServer>[0] = {}): Promise<ClickHouseServer> {
  const server = await startServer(options);
  await initFleet(server);
  return server;
}

/** Makes the tables as `kreplay fleet init` does, also of a cluster. */
export async function initFleet({ url }: Pick<ClickHouseServer, 'url'>, cluster?: string): Promise<void> {
  const settings = { urls: [url], database: 'kreplay' };
  const place = { database: 'kreplay', version: await readServerVersion(settings), cluster };
  await createTables(settings, place, { nowNs: BigInt(Date.now()) * 1_000_000n });
}

/** Makes new tables, so that the next test begins with an empty fleet. */
export async function emptyFleet(server: ClickHouseServer): Promise<void> {
  // Truncated rows may be back when the server was killed.
  await server.sql('DROP DATABASE IF EXISTS kreplay');
  await initFleet(server);
}

const TABLES = ['event', 'by_id', 'transaction', 'stat', 'name', 'loss', 'clock', 'node', 'segment'] as const;

/** Merges rows with equal keys now. */
export async function mergeFleet(server: ClickHouseServer): Promise<void> {
  for (const table of TABLES) await server.sql(`OPTIMIZE TABLE kreplay.${table} FINAL`);
}

export const stateOf = (folder: string) => join(folder, 'ship');

const running = new Set<Running>();
endWithServers(endShippers);

/** Suites that leave a service running call it in afterEach(). */
export async function endShippers(): Promise<void> {
  await endShippingHere();
  for (const one of running) one.child.kill('SIGKILL');
  await Promise.all([...running].map(({ ended }) => ended));
}

/** Starts `kreplay ship` over the recording in a folder, whose state is in a folder beside it. */
export function startShip(folder: string, url: string | readonly string[], ...more: string[]): Running {
  const places = ['--data', folder, '--state', stateOf(folder), '--url', ...[url].flat()];
  const one = start('ship', ...places, ...more);
  running.add(one);
  void one.ended.finally(() => running.delete(one));
  return one;
}

export function shipOnce(folder: string, url: string | readonly string[], ...more: string[]): Promise<Ended> {
  return startShip(folder, url, '--once', ...more).ended;
}

/** Waits until segments with so many events have arrived. */
export async function isThere(server: ClickHouseServer, events: number): Promise<void> {
  while ((await countAt(server, 'SELECT sum(n) FROM kreplay.segment FINAL')) < events) await sleep(50);
}

export function forgetPosition(folder: string): void {
  rmSync(join(stateOf(folder), 'position.json'));
}

/** Expects that the rows arrived exactly, each once by its key, and that all sums are those of the rows. */
export async function expectAll(server: ClickHouseServer, rows: readonly Row[]): Promise<void> {
  const events = eventsOf(rows);
  const arrived = await arrivedAt(server);
  expectSame(arrived.events, new Map(events.map((event) => [event.number, textOf(event)])));
  expect(await lossesAt(server)).toEqual({});
  await expectSums(server, events);
}

/** Expects that the sums are those of these events. */
export async function expectSums(server: ClickHouseServer, events: ReturnType<typeof eventsOf>): Promise<void> {
  expect(await summariesAt(server, { kind: 1 })).toEqual(summariesOf(events, 'transaction'));
  expect(await summariesAt(server, { kind: 2 })).toEqual(summariesOf(events, 'trace'));
  expect(await summariesAt(server, { service: '' })).toEqual(summariesOf(events, 'transaction'));
  expect(await statsAt(server)).toEqual(statsOf(events));
}

/** Compares many entries; a failure shows the first ones that differ. */
export function expectSame(found: ReadonlyMap<number, string>, wanted: ReadonlyMap<number, string>): void {
  const differing = [...new Set([...found.keys(), ...wanted.keys()])].filter(
    (key) => found.get(key) !== wanted.get(key),
  );
  const shown = differing.slice(0, 3).map((key) => ({ found: found.get(key), wanted: wanted.get(key) }));
  expect({ count: differing.length, shown }).toEqual({ count: 0, shown: [] });
}
