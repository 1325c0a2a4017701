/** Tests servers that are no ClickHouse, or a broken or hostile one: each statement ends, with an error that says so. */
import { readTypedRows } from '../../agent/clickhouse/connection/rows.ts';
import { sql } from '../../agent/clickhouse/statements/sql.ts';
import { formatStatus, readFleetStatus } from '../../agent/fleet/status.ts';
import { UserError } from '../../agent/process/errors.ts';
import { recorded } from '../daemon/recorded.ts';
import { endShippingHere, startHere } from '../ship/here.ts';
import { loadRows } from '../ship/load.ts';
import { closeAll, connectedTo, errorOf } from './connected.ts';
import { BEHAVIOURS, type BehaviourName, closeHostile, hostile, SLOW_BEHAVIOURS } from './hostile.ts';

afterEach(async () => {
  await endShippingHere();
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
    const errors = [await errorOf(readTypedRows(connection, one, SHAPE))];
    // An endless answer of blocks that can be read is right for a statement whose rows are not counted.
    if (!/without end|16 MiB|columns$/.test(name)) errors.push(await errorOf(read()));
    // Any answer without an error is a change that was done, in the eyes of an old server's readers.
    if (!/page|packs|meaning|types|columns$/.test(name)) errors.push(await errorOf(connection.run(one)));
    // Only a server that has stored an insert answers nothing.
    errors.push(await errorOf(connection.insert({ table: 'a', columns: ['a'] }, () => [block])));
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
      errorOf(readTypedRows(connection, one, SHAPE, brief)),
      errorOf(read()),
      errorOf(connection.run(one, brief)),
      errorOf(connection.insert({ table: 'a', columns: ['a'] }, () => [block], brief)),
    ]);
    for (const { code, meaning } of errors) expect({ code, meaning }).toEqual({ code: 'timeout', meaning: 'repeat' });
  });
});

describe('where a server', () => {
  test.each(NAMES)('%s, a shipper says so and goes on trying, and a status is an error of one line', async (name) => {
    const { url } = await hostile(name);
    const service = startHere(recorded(loadRows(10)), url);
    const isOver = service.ended.then(
      () => true,
      () => true,
    );
    await service.logged(/shipping waits/);
    expect(await Promise.race([isOver, undefined])).toBe(undefined);
    const error = await readFleetStatus({ urls: [url], database: 'kreplay' }).then(
      formatStatus,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(UserError);
    expect((error as Error).message).not.toMatch(CONTROL);
    const opened = await hostile(name, { opens: true });
    await expect(readFleetStatus({ urls: [opened.url], database: 'kreplay' })).rejects.toBeInstanceOf(UserError);
  });
});

test('blocks without end leave turns to other work, and a reader may stop at any of them', async () => {
  const { url } = await hostile('has other columns without end');
  let [blocks, turns] = [0, 0];
  let isOver = false;
  function turn(): void {
    turns++;
    if (!isOver) setImmediate(turn);
  }
  setImmediate(turn);
  for await (const _ of connectedTo(url).select(one)) if (++blocks === 500) break;
  isOver = true;
  expect(turns).toBeGreaterThan(10);
});
