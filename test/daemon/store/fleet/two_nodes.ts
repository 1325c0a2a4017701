/** A transaction over two nodes of a fleet, among other events of some hours. */
import type { Store } from '../../../../daemon/store/store.ts';
import type { ClickHouseServer } from '../../../clickhouse/server.ts';
import { countAt } from '../../../ship/centre.ts';
import { appendRows, newFolder, newWriter, type Row, recordingPath, START } from '../../recorded.ts';

export const SECOND = 1_000_000_000n;
export const HOUR = 3600n * SECOND;
export const TRACE = 'ab'.repeat(16);
/** The transaction starts in the second hour. */
export const ORDER_START = START + HOUR + 600n * SECOND;
export const HOURS = 4n;

const every = (hours: bigint, row: (at: bigint, i: number) => Row): Row[] =>
  Array.from({ length: Number(hours) * 60 }, (_, i) => row(START + BigInt(i) * 60n * SECOND, i));

/** What a node does all the time, with a transaction in each hour. */
const usual = (name: string): Row[] =>
  every(HOURS, (at, i) => ({ at: at + 7n, file: `/srv/${i}`, transaction: `${name}-${Math.floor(i / 60)}` }));

export const order = (node: 'a' | 'b', count: number, fromNs = ORDER_START): Row[] =>
  Array.from({ length: count }, (_, i) => ({
    at: fromNs + BigInt(i) * SECOND + (node === 'b' ? SECOND / 2n : 0n),
    ...{ transaction: 'order-1', trace: TRACE, service: node === 'a' ? 'shop' : 'pay', duration: 5_000_000n },
  }));

/** A writer seals what it has when it closes: a segment for each hour. */
function inSegments(node: string, rows: readonly Row[]): string {
  const folder = newFolder();
  const sorted = rows.toSorted((a, b) => (a.at < b.at ? -1 : 1));
  for (const own of Map.groupBy(sorted, ({ at }) => at / HOUR).values()) {
    const writer = newWriter(folder, node);
    appendRows(writer, own);
    writer.close();
  }
  return recordingPath(folder);
}

/** Paths of the recordings of both nodes. */
export function twoNodes(): string[] {
  return [
    inSegments('node-a', [...usual('a'), ...order('a', 10)]),
    inSegments('node-b', [...usual('b'), ...order('b', 5)]),
  ];
}

/** The events of a filter, each as its JSON. */
export async function eventsIn(store: Store, filter: Parameters<Store['scan']>[0]['filter'] = {}): Promise<string[]> {
  const chunks: Buffer[] = [];
  for await (const chunk of store.scanJson({ filter, order: 'asc' })) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString().split('\n').filter(Boolean);
}

export const hourOf = (ns: bigint): bigint => ns / HOUR;

/** How many events lie in each hour of the table, from the first hour of the test on. */
export async function hoursAt(server: ClickHouseServer, database = 'kreplay'): Promise<number[]> {
  const counts = Array.from({ length: Number(HOURS) }, (_, i) => hourOf(START) + BigInt(i)).map((hour) =>
    countAt(server, `SELECT count() FROM ${database}.event WHERE intDiv(timestamp_ns, 3600000000000) = ${hour}`),
  );
  return Promise.all(counts);
}
