/** Tests servers that are no ClickHouse, or a broken or hostile one: each statement ends, with an error that says so. */
import { rowsOf } from '../../agent/clickhouse/connection/rows.ts';
import { sql } from '../../agent/clickhouse/statements/sql.ts';
import { closeAll, connectedTo, errorOf } from './connected.ts';
import { BEHAVIOURS, type BehaviourName, closeHostile, hostile, SLOW_BEHAVIOURS } from './hostile.ts';

afterEach(() => {
  closeAll();
  closeHostile();
});

const NAMES = Object.keys(BEHAVIOURS) as BehaviourName[];
const SLOW_NAMES = Object.keys(SLOW_BEHAVIOURS) as BehaviourName[];
// biome-ignore lint/suspicious/noControlCharactersInRegex: none of these may reach a terminal
const CONTROL = /[\x00-\x1f\x7f-\x9f]/;
const one = sql`SELECT version() AS version`;
const SHAPE = { version: 'text' } as const;
const CODES = /^(malformed|too_large|cut|refused|timeout)$/;

describe('a server that', () => {
  test.each(NAMES)('%s is an error of the server, at each kind of statement', async (name) => {
    const { url } = await hostile(name);
    const connection = connectedTo(url);
    const block = Buffer.from([1, 1, 1, 97, 5, ...Buffer.from('UInt8'), 1]);
    async function read(): Promise<void> {
      // What it sends is read to its end.
      for await (const _ of connection.select(one));
    }
    const errors = [await errorOf(rowsOf(connection, one, SHAPE))];
    // An endless answer of blocks that can be read is right for a statement whose rows are not counted.
    if (!/without end|16 MiB|columns$/.test(name)) errors.push(await errorOf(read()));
    // Any answer without an error is a change that was done, in the eyes of an old server's readers.
    if (!/page|packs|meaning|types|columns$/.test(name)) {
      errors.push(await errorOf(connection.run(one)));
      errors.push(await errorOf(connection.insert({ table: 'a', columns: ['a'] }, () => [block])));
    }
    for (const { code, message } of errors) {
      expect(code).toEqual(expect.stringMatching(CODES));
      expect(message).not.toMatch(CONTROL);
    }
  });

  test.each(SLOW_NAMES)('%s is given up at the time-out', async (name) => {
    const { url } = await hostile(name);
    const connection = connectedTo(url);
    const brief = { timeoutMs: 1200 };
    const block = Buffer.from([1, 1, 1, 97, 5, ...Buffer.from('UInt8'), 1]);
    async function read(): Promise<void> {
      for await (const _ of connection.select(one, brief));
    }
    const errors = await Promise.all([
      errorOf(rowsOf(connection, one, SHAPE, brief)),
      errorOf(read()),
      errorOf(connection.run(one, brief)),
      errorOf(connection.insert({ table: 'a', columns: ['a'] }, () => [block], brief)),
    ]);
    for (const { code, meaning } of errors) expect({ code, meaning }).toEqual({ code: 'timeout', meaning: 'repeat' });
  });
});
