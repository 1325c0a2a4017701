/** A fleet with some hours of events, and `kreplay fleet retain` over it. */

import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Retained, retain } from '../../../agent/fleet/retain/retain.ts';
import { start } from '../../daemon/command_line.ts';
import { START } from '../../daemon/recorded.ts';
import { HOUR, HOURS, hoursAt, twoNodes } from '../../daemon/store/fleet/two_nodes.ts';
import { countAt, rowsAt } from '../../ship/centre.ts';
import { emptyFleet } from '../../ship/fleet.ts';
import { shipHere } from '../../ship/here.ts';
import type { ClickHouseServer } from '../server.ts';

/** Empties the tables, and fills them with the events of two nodes. */
export async function fillFleet(server: ClickHouseServer): Promise<void> {
  await emptyFleet(server);
  await Promise.all(twoNodes().map((path) => shipHere(dirname(path), server.url)));
}

const ageNsOf = (hours: bigint): bigint => BigInt(Date.now()) * 1_000_000n - START - hours * HOUR - HOUR / 2n;

/** The age with which so many hours from the start of the recordings are dropped. */
export const ageOf = (hours: bigint): string => `${ageNsOf(hours) / 1_000_000_000n}s`;

export const startRetain = (server: ClickHouseServer, ...args: string[]) =>
  start('fleet', 'retain', '--url', server.url, '--free', '0%', ...args);

/** Drops in this process what `kreplay fleet retain --age` with so many hours drops. */
export const retainHere = ({ url }: Pick<ClickHouseServer, 'url'>, hours: bigint): Promise<Retained[]> =>
  retain([{ urls: [url], database: 'kreplay' }], {
    ageNs: ageNsOf(hours),
    freePercent: undefined,
    isDryRun: false,
    nowNs: BigInt(Date.now()) * 1_000_000n,
    note: () => {},
  });

export const retainCommand = (server: ClickHouseServer, ...args: string[]) => startRetain(server, ...args).ended;

const JOURNAL =
  "SELECT count() FROM (SELECT argMax(value, at) AS value FROM kreplay.meta WHERE key = 'retaining') WHERE value != ''";

/** Waits until a retention has noted what it will drop, and so is in the middle of it, or has ended. */
export async function isDropping(server: ClickHouseServer, { child }: ReturnType<typeof startRetain>): Promise<void> {
  while (child.exitCode === null && (await countAt(server, JOURNAL)) === 0) await sleep(5);
}

/** All that retention changes. */
export async function stateAt(server: ClickHouseServer) {
  const meta = (key: string) =>
    `SELECT argMax(value, at) AS value FROM kreplay.meta WHERE key = '${key}' HAVING count() > 0`;
  const [oldest] = await rowsAt(server, meta('oldest_ns'));
  const [journal] = await rowsAt(server, meta('retaining'));
  const losses =
    "SELECT node, cause, count, from_ns, to_ns FROM kreplay.loss FINAL WHERE cause = 'retention' ORDER BY node";
  const first = (table: string, column: string) => countAt(server, `SELECT min(${column}) FROM kreplay.${table}`);
  const startHour = Number(START / HOUR);
  return {
    oldest: oldest && Number((BigInt(oldest.value as string) - START) / HOUR),
    isInterrupted: (journal?.value ?? '') !== '',
    losses: (await rowsAt(server, losses)).map(({ node, cause, count, from_ns, to_ns }) => [
      node,
      cause,
      Number(count),
      Number(BigInt(from_ns as string) - START) / 1e9,
      Number(BigInt(to_ns as string) + 1n - START) / 1e9,
    ]),
    events: await hoursAt(server),
    firstHours: {
      transaction: Math.floor((await first('transaction', 't_min')) / Number(HOUR)) - startHour,
      stat: (await first('stat', 'intDiv(minute, 60)')) - startHour,
      name: (await first('name', 'hour')) - startHour,
      segment: Math.floor((await first('segment', 't_min')) / Number(HOUR)) - startHour,
    },
    days: await countAt(server, 'SELECT count() FROM kreplay.by_id'),
  };
}

export const ALL_HOURS = Array.from({ length: Number(HOURS) }, (_, i) => BigInt(i));
