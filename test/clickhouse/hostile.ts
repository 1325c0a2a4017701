/**
 * Servers that are no ClickHouse, or a broken or hostile one. Each answers what it is asked of the tables of a fleet as
 * one should, so that readers begin, and the rest by its behaviour.
 */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { createBlockEncoder } from '../../agent/clickhouse/native/encode.ts';
import { createTextTable } from '../../agent/clickhouse/native/texts.ts';
import { parseType } from '../../agent/clickhouse/native/types.ts';
import { EVENT_COLUMNS } from '../../agent/clickhouse/tables/event_columns.ts';
import { buildTables, SCHEMA_VERSION } from '../../agent/clickhouse/tables/schema.ts';
import { columnOf } from './columns.ts';

export interface Hostile {
  url: string;
  /** May be changed at any time. */
  behaviour: BehaviourName;
  /** Statements that are answered so; others have no rows, except what leads to those. */
  when: RegExp;
  close(): void;
}

type Write = (bytes: string | Uint8Array) => Promise<void>;
type Behaviour = (write: Write, statement: string, socket: Socket) => Promise<unknown> | unknown;

const encoder = createBlockEncoder();
const HEADER = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
const encoded = (columns: Parameters<typeof encoder.encode>[0], rows: number) =>
  Buffer.from(encoder.encode(columns, rows));
const chunk = (bytes: Uint8Array) =>
  Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
const whole = (bytes: Uint8Array) =>
  Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${bytes.length}\r\n\r\n`), bytes]);
const packed = (bytes: Uint8Array) =>
  Buffer.concat([
    Buffer.from(`HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${bytes.length}\r\n\r\n`),
    bytes,
  ]);
const texts = (name: string, values: readonly string[]) => ({
  name,
  type: parseType('String'),
  values: { table: createTextTable(values) },
});

/** Writes the same bytes until the reader has gone. */
async function forever(write: Write, socket: Socket, bytes: string | Uint8Array): Promise<void> {
  while (!socket.destroyed) await write(bytes);
}

async function endless(write: Write, socket: Socket, block: Uint8Array): Promise<void> {
  await write(HEADER);
  await forever(write, socket, chunk(block));
}

const ROWS = 4096;
const TEXT_BYTES = 16 * 1024 * 1024 - 1;
const lines = (count: number) => Array.from({ length: ROWS }, () => '7'.repeat(count));

/** Rows of the columns that a statement selects, as far as the tests need them. */
function askedColumns(statement: string) {
  const events = /^SELECT (`timestamp_ns`.*?) FROM/.exec(statement)?.[1];
  const types = new Map(EVENT_COLUMNS.map(({ name, type }) => [name, type] as const));
  if (events) {
    const key = { recording: 'UInt64', number: 'UInt64', node: 'LowCardinality(String)', owner: 'String' } as const;
    return events.split(', ').map((quoted) => {
      const name = quoted.slice(1, -1);
      const type = types.get(name) ?? parseType(key[name as keyof typeof key]);
      return zeros(name, type);
    });
  }
  if (/ AS hash/.test(statement) && !/whole_id, hash/.test(statement))
    return [
      ...['hash', 'started', 'lasted'].map((name) => zeros(name, parseType('UInt64'))),
      zeros('has_failed', parseType('UInt8')),
      zeros('on_nodes', parseType('Array(String)')),
    ];
  if (/whole_id/.test(statement))
    return [texts('whole_id', lines(4)), zeros('hash', parseType('UInt64')), zeros('value', parseType('UInt64'))];
  if (/SELECT DISTINCT text/.test(statement)) return [texts('text', lines(4))];
  return [texts('version', lines(4))];
}

function zeros(name: string, type: ReturnType<typeof parseType>) {
  switch (type.kind) {
    case 'integer':
      return columnOf(name, type.integer, Array(ROWS).fill(0n));
    case 'text':
      return texts(name, name === 'event_type' ? Array(ROWS).fill('sys_write') : Array(ROWS).fill(''));
    case 'dictionary':
      return {
        name,
        type,
        values: {
          table: createTextTable(['', 'sys_write']),
          ids: new Uint32Array(ROWS).fill(name === 'event_type' ? 1 : 0),
        },
      };
    case 'fixed_text':
      return { name, type, values: new Uint8Array(ROWS * type.bytes) };
    case 'list': {
      const items = type.item.kind === 'text' ? { table: createTextTable([]) } : new BigUint64Array(0);
      const bytes = type.item.kind === 'fixed_text' ? new Uint8Array(0) : items;
      return { name, type, values: { ends: new Uint32Array(ROWS), items: bytes } };
    }
  }
}

/** A block that begins: one column of texts, of which all are as long as a text may be. */
function longTexts(): Buffer[] {
  const text = Buffer.alloc(TEXT_BYTES, 'a');
  const length = Buffer.from([
    (TEXT_BYTES & 127) | 128,
    ((TEXT_BYTES >> 7) & 127) | 128,
    ((TEXT_BYTES >> 14) & 127) | 128,
    TEXT_BYTES >> 21,
  ]);
  return [Buffer.from([1, 4, 1, 115, 6]), Buffer.from('String'), ...Array(4).fill([length, text]).flat()];
}

const WRONG_TYPES = () =>
  encoded(
    [
      columnOf('value', 'UInt8', [1n]),
      columnOf('number', 'UInt8', [1n]),
      {
        name: 'key',
        type: parseType('Array(String)'),
        values: { ends: Uint32Array.of(1), items: { table: createTextTable(['x']) } },
      },
      texts('__proto__', ['a']),
    ],
    1,
  );

export const BEHAVIOURS = {
  'speaks no HTTP': (write) => write('SSH-2.0-OpenSSH_9.2p1 Debian\r\n'),
  'has endless headers': async (write, _, socket) => {
    await write('HTTP/1.1 200 OK\r\n');
    await forever(write, socket, `X-Header: ${'a'.repeat(200)}\r\n`);
  },
  'says for ever that it will answer': (write, _, socket) =>
    forever(write, socket, 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(100)),
  'changes the protocol': (write) =>
    write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n'),
  'breaks its chunks': (write) => write(`${HEADER}zz\r\nhello`),
  'is a page': (write) => write(whole(Buffer.from('<html>hello</html>'))),
  'packs its answer': (write) => write(packed(gzipSync(Buffer.alloc(1 << 20)))),
  'sends somewhere else': (write) =>
    write('HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n'),
  'reports an error without end': async (write, _, socket) => {
    await write('HTTP/1.1 500 Error\r\nTransfer-Encoding: chunked\r\n\r\n');
    await forever(write, socket, chunk(Buffer.alloc(65_536, 'x')));
  },
  'sends bytes of no meaning': (write) => write(whole(Buffer.from(Array.from({ length: 70_000 }, (_, i) => i % 256)))),
  'names types with control characters': (write) =>
    write(whole(Buffer.from('\x01\x01\x01n\x0d\x1b]0;title\x07\x1b[31m\x00'))),
  'has other columns': (write) => write(whole(WRONG_TYPES())),
  'has other columns without end': (write, _, socket) =>
    endless(write, socket, encoded([columnOf('n', 'UInt64', Array(65_536).fill(0n))], 65_536)),
  'has rows without columns': (write, _, socket) =>
    endless(write, socket, Buffer.concat(Array(4000).fill(Buffer.from([0, 0x80, 0x80, 0x04])))),
  'has blocks without rows': (write, _, socket) => endless(write, socket, Buffer.alloc(65_536)),
  'has texts of 16 MiB': async (write, _, socket) => {
    const pieces = longTexts();
    await write(HEADER);
    while (!socket.destroyed) for (const piece of pieces) await write(chunk(piece));
  },
  'has rows without end': (write, statement, socket) => endless(write, socket, encoded(askedColumns(statement), ROWS)),
} satisfies Record<string, Behaviour>;

/** These give up what is waited for too long. */
export const SLOW_BEHAVIOURS = {
  'answers with a byte now and then': async (write, _, socket) => {
    await write(HEADER);
    while (!socket.destroyed) {
      await write(chunk(Buffer.from([1])));
      await sleep(500);
    }
  },
  'has a header that never ends': async (write, _, socket) => {
    await write('HTTP/1.1 200 OK\r\nX-Header: ');
    while (!socket.destroyed) {
      await write('a');
      await sleep(500);
    }
  },
  'reports an error with a byte now and then': async (write, _, socket) => {
    await write('HTTP/1.1 500 Error\r\nContent-Length: 60000\r\n\r\nCode: 60');
    while (!socket.destroyed) {
      await write('a');
      await sleep(500);
    }
  },
} satisfies Record<string, Behaviour>;

export type BehaviourName = keyof typeof BEHAVIOURS | keyof typeof SLOW_BEHAVIOURS;
const ALL: Record<BehaviourName, Behaviour> = { ...BEHAVIOURS, ...SLOW_BEHAVIOURS };

const open: (() => void)[] = [];

/** Suites call it in afterAll(). */
export function closeHostile(): void {
  for (const close of open.splice(0)) close();
}

/** With `opens` the statements that open the tables are answered as they should be. */
export async function hostile(behaviour: BehaviourName, { opens = false } = {}): Promise<Hostile> {
  const sockets = new Set<Socket>();
  const one: Hostile = {
    behaviour,
    when: /^/,
    url: '',
    close() {
      listening.close();
      for (const socket of sockets) socket.destroy();
    },
  };
  const listening = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
    void serve(socket).catch(() => socket.destroy());
  });

  async function serve(socket: Socket): Promise<void> {
    const drained: (() => void)[] = [];
    function wake(): void {
      for (const resolve of drained.splice(0)) resolve();
    }
    socket.on('drain', wake).on('close', wake);
    const write: Write = async (bytes) => {
      if (socket.destroyed) throw new Error('the reader has gone');
      if (!socket.write(bytes)) await new Promise<void>((resolve) => drained.push(resolve));
    };
    for await (const statement of statementsFrom(socket)) {
      const good =
        (opens ? goodAnswer(statement) : undefined) ?? (one.when.test(statement) ? undefined : leading(statement));
      if (good) await write(whole(good));
      else await ALL[one.behaviour](write, statement, socket);
    }
  }

  listening.listen(0, '127.0.0.1');
  await once(listening, 'listening');
  open.push(one.close);
  one.url = `http://127.0.0.1:${(listening.address() as { port: number }).port}`;
  return one;
}

/** The bodies of requests; that of an insert is its query string. */
async function* statementsFrom(socket: Socket): AsyncGenerator<string> {
  let buffer = Buffer.alloc(0);
  let wake = () => {};
  let isOver = false;
  socket.on('data', (bytes: Buffer) => {
    buffer = Buffer.concat([buffer, bytes]);
    wake();
  });
  socket.on('close', () => {
    isOver = true;
    wake();
  });
  for (;;) {
    const end = buffer.indexOf('\r\n\r\n');
    const head = end < 0 ? '' : buffer.toString('latin1', 0, end);
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? Number.NaN);
    const last = Number.isNaN(length) ? buffer.indexOf('\r\n0\r\n\r\n', end) + 7 : end + 4 + length;
    if (end >= 0 && last > end + 4 - 1 && buffer.length >= last && last !== 6) {
      const body = buffer.toString('latin1', end + 4, last);
      buffer = buffer.subarray(last);
      yield Number.isNaN(length) ? decodeURIComponent(head.split(' ')[1]!) : body;
      continue;
    }
    if (isOver) return;
    await new Promise<void>((resolve) => {
      wake = resolve;
    });
  }
}

/** There are events and transactions at some time. */
function leading(statement: string): Buffer {
  if (!/SELECT sum\(n\) AS events/.test(statement)) return Buffer.alloc(0);
  const number = (name: string, value: bigint) => columnOf(name, 'UInt64', [value]);
  return encoded([number('events', 1_000_000n), number('first_ns', 0n), number('last_ns', 1_000_000_000n)], 1);
}

function goodAnswer(statement: string): Buffer | undefined {
  if (/argMax\(value, at\) AS value FROM `meta` GROUP BY key/.test(statement))
    return encoded(
      [texts('key', ['schema_version', 'bucket_ns']), texts('value', [String(SCHEMA_VERSION), '60000000000'])],
      2,
    );
  if (/FROM `meta`/.test(statement)) return Buffer.alloc(0);
  if (/FROM system\.columns/.test(statement)) {
    const all = buildTables(1n).flatMap(({ name: table, columns }) =>
      columns.map(({ name }) => [table, name] as const),
    );
    const named = (name: string, values: string[]) => texts(name, values);
    return encoded(
      [
        named(
          'table',
          all.map(([table]) => table),
        ),
        named(
          'name',
          all.map(([, name]) => name),
        ),
        named(
          'type',
          all.map(() => 'String'),
        ),
      ],
      all.length,
    );
  }
  return undefined;
}
