/** Checks what the account of a shipper may do: fill the tables, count events there, and read none. */
import { type Connection, QUESTION_MS } from '../clickhouse/connection/connection.ts';
import { rowsOf } from '../clickhouse/connection/rows.ts';
import { ServerError } from '../clickhouse/connection/server_error.ts';
import { newBlockEncoder } from '../clickhouse/native/encode.ts';
import { typeOf } from '../clickhouse/native/types.ts';
import { identifier, sql } from '../clickhouse/statements/sql.ts';
import type { ServerVersion } from '../clickhouse/tables/server_version.ts';
import type { Check } from './check.ts';

const NAME = 'ship account';
const QUESTION = { timeoutMs: QUESTION_MS };

export async function account(connection: Connection, { isCurrent, text: version }: ServerVersion): Promise<Check> {
  const refusal = await refusalOf(() => insertNothing(connection));
  if (refusal) {
    const advice = `give it the rights of kr_ship: \`kreplay fleet init --accounts\` grants them`;
    return { name: NAME, state: 'warning', text: `cannot insert: ${refusal.message}`, advice };
  }
  const isClosed = (await refusalOf(() => readNothing(connection))) !== undefined;
  if (isClosed) return await counting(connection);
  const text = 'inserts, and can read the events of all nodes';
  if (isCurrent) return { name: NAME, state: 'warning', text, advice: 'use kr_ship, which cannot' };
  const advice = `${version} knows no rights by table, so it cannot be restricted`;
  return { name: NAME, state: 'warning', text, advice };
}

/** An account of earlier tables may not count. */
async function counting(connection: Connection): Promise<Check> {
  const closed = 'inserts, and cannot read events';
  if (!(await refusalOf(() => countNothing(connection)))) return { name: NAME, state: 'ok', text: closed };
  const text = `${closed}, nor their numbers: what is removed before it arrived may count as lost although it arrived`;
  const advice = 'run `kreplay fleet init --accounts` again, which grants what is new';
  return { name: NAME, state: 'warning', text, advice };
}

async function refusalOf(work: () => Promise<unknown>): Promise<ServerError | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    if (error instanceof ServerError) return error;
    throw error;
  }
}

/** A block without rows is checked as any other, and stores nothing. */
async function insertNothing(connection: Connection): Promise<void> {
  const column = { name: 'number', type: typeOf('UInt64'), values: new BigUint64Array(0) };
  const block = newBlockEncoder().encode([column], 0);
  await connection.insert({ table: 'event', columns: [column.name] }, () => [block], QUESTION);
}

async function readNothing(connection: Connection): Promise<void> {
  await rowsOf(connection, sql`SELECT service FROM ${identifier('event')} LIMIT 0`, { service: 'text' }, QUESTION);
}

async function countNothing(connection: Connection): Promise<void> {
  await rowsOf(connection, sql`SELECT number FROM ${identifier('event')} LIMIT 0`, { number: 'number' }, QUESTION);
}
