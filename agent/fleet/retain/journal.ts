/**
 * What retention is about to do on a shard. It is written before anything is changed, with totals instead of what is
 * added: done again after an interruption, it ends in the same state and counts nothing twice.
 */
import type { Connection } from '../../clickhouse/connection/connection.ts';
import { ServerError } from '../../clickhouse/connection/server_error.ts';
import { readValue, writeValue } from '../../clickhouse/tables/meta.ts';
import type { Dropped } from './losses.ts';

export interface Journal {
  /** The first hour that is kept. */
  firstHour: bigint;
  /** All that was dropped then, for each node. */
  dropped: readonly Dropped[];
}

const KEY = 'retaining';

/** Undefined if nothing was interrupted. Throws a ServerError. */
export async function readJournal(connection: Connection): Promise<Journal | undefined> {
  const value = await readValue(connection, KEY);
  if (value === undefined || value === '') return undefined;
  try {
    const { first_hour, dropped } = JSON.parse(value) as { first_hour: string; dropped: string[][] };
    return {
      firstHour: BigInt(first_hour),
      dropped: dropped.map(([node, from, to, count]) => ({
        node: node!,
        fromNs: BigInt(from!),
        toNs: BigInt(to!),
        count: BigInt(count!),
      })),
    };
  } catch {
    throw new ServerError('malformed', 'blocked', `the value ${KEY} of the table meta is not of kreplay`);
  }
}

export async function writeJournal(connection: Connection, { firstHour, dropped }: Journal): Promise<void> {
  const lines = dropped.map(({ node, fromNs, toNs, count }) => [node, ...[fromNs, toNs, count].map(String)]);
  await write(connection, JSON.stringify({ first_hour: String(firstHour), dropped: lines }));
}

export function clearJournal(connection: Connection): Promise<void> {
  return write(connection, '');
}

function write(connection: Connection, value: string): Promise<void> {
  return writeValue(connection, KEY, value, BigInt(Date.now()) * 1_000_000n);
}
