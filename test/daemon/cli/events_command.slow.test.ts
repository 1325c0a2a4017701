/** Tests `kreplay events` as users and pipelines run it. */

import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { atTerminal, start } from '../command_line.ts';
import { hosted, hostedAtTerminal } from '../hosted.ts';
import { type Row, recorded, recordedOn, recordingPath, START } from '../recorded.ts';
import { type Served, serve, served } from '../served.ts';

const rows: Row[] = [
  {
    at: 2n ** 53n + 1n,
    duration: 1_234_567n,
    transaction: 'tx-1',
    file: '/var/lib/a\u001b[31m\nb',
    syscall: 'writev',
    result: 4096n,
    requested: 2n ** 63n + 1n,
  },
  { at: START, duration: 999n, service: 'cart', transaction: 'tx-2', comm: 'cart', pid: 7, result: -28n },
  { type: 'block_io', at: START + 1n, duration: 2_000_000_000n, bytes: 8192n, operation: 'flush', device: 'nvme0n1' },
  ...Array.from({ length: 200 }, (_, i): Row => ({ at: START + 1000n + BigInt(i), pid: 9 })),
];

let shared: Served;
beforeAll(async () => {
  shared = await serve(
    recorded(rows, (writer) =>
      writer.recordLoss({ cause: 'ring_full', eventType: null, count: 3, fromNs: START + 5000n, toNs: START + 6000n }),
    ),
  );
});
afterAll(() => shared.close());

const events = (...args: string[]) => hosted('events', '--url', shared.url, ...args);

test('lines are printed as the server wrote them', async () => {
  const { code, stdout } = await events();
  const { text } = await shared.get('/api/events', { headers: { accept: 'application/x-ndjson' } });
  expect([code, stdout]).toEqual([0, text]);
  expect(stdout).toContain('"timestamp_ns":9007199254740993,');
  expect(stdout).toContain('"bytes_requested":9223372036854775809,');
});

test('a table has a row for each event and no terminal control characters', async () => {
  const { code, stdout } = await events('--output', 'table', '--limit', '3');
  expect(code).toBe(0);
  expect(stdout.replace(/ {2,}/g, '  ').split('\n')).toEqual([
    'TIME  DURATION  TYPE  SERVICE  TRANSACTION  PID  COMM  OPERATION  BYTES  FILE/DEVICE  ERROR',
    '1970-04-15T05:59:59.254740993Z  1.234ms  sys_write  shop  tx-1  100  node  writev  4096  /var/lib/a\\u{1b}[31m\\u{a}b',
    '2025-11-21T00:00:00.000000000Z  999ns  sys_write  cart  tx-2  7  cart  write  -  -  ENOSPC',
    '2025-11-21T00:00:00.000000001Z  2.000s  block_io  shop  -  100  node  flush  8192  nvme0n1',
    '',
  ]);
});

const HOSTILE = '\u009b31m\u202e\u{e0001}\u001b]0;x\u0007\rb';
const ROW_OUTPUTS = ['table', 'csv', 'ndjson', 'json'];

describe('on a terminal', () => {
  let hostile: Served;
  beforeAll(async () => {
    hostile = await serve(
      recorded([{ at: START, comm: HOSTILE, file: HOSTILE, transaction: HOSTILE, service: HOSTILE }]),
    );
  });
  afterAll(() => hostile.close());

  const argsOf = (command: string, output: string) => {
    const more = command === 'stats' ? ['--group-by', 'comm'] : [];
    return [command, '--url', hostile.url, '--output', output, ...more];
  };

  function expectHarmless(stdout: string): void {
    expect(stdout.replaceAll(/\r*\n/g, '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    expect(stdout).toMatch(/\\u(009b|\{9b\})31m/);
  }

  test.each([
    ['events', ROW_OUTPUTS],
    ['transactions', ROW_OUTPUTS],
    ['stats', ROW_OUTPUTS],
    ['services', ['text', 'json']],
  ])('the output of %s has no control characters', async (command, outputs) => {
    const real = await atTerminal(...argsOf(command, outputs[0]!));
    expect(real.code).toBe(0);
    expectHarmless(real.stdout);
    for (const output of outputs) {
      const { code, stdout } = await hostedAtTerminal(...argsOf(command, output));
      expect([output, code]).toEqual([output, 0]);
      expectHarmless(stdout);
      if (output.endsWith('json'))
        expect(JSON.parse(stdout)).toEqual(JSON.parse((await hosted(...argsOf(command, output))).stdout));
    }
  });
});

test('CSV has a column for every field', async () => {
  const [heading, line] = (await events('--output', 'csv', '--comm', 'cart')).stdout.split('\r\n');
  const row = Object.fromEntries(heading!.split(',').map((name, i) => [name, line!.split(',')[i]]));
  expect(row).toMatchObject({
    service_name: 'cart',
    pid: '7',
    result: '-28',
    error: 'ENOSPC',
    timestamp_ns: `${START}`,
  });
});

test('a table stops after a hundred rows and says so', async () => {
  const { stdout, stderr } = await events('--output', 'table');
  expect(stdout.trimEnd().split('\n')).toHaveLength(101);
  expect(stderr).toContain('there are more than these 100: see --limit');
  const whole = await events('--output', 'table', '--limit', '203');
  expect(whole.stdout.trimEnd().split('\n')).toHaveLength(204);
  expect(whole.stderr).not.toContain('--limit');
});

test('JSON output is one document', async () => {
  const { stdout } = await events('--output', 'json', '--limit', '2');
  expect(JSON.parse(stdout).events).toHaveLength(2);
  expect(JSON.parse((await events('--output', 'json', '--pid', '1')).stdout)).toEqual({ events: [] });
});

test('losses are reported on stderr', async () => {
  const { stderr } = await events('--limit', '1');
  expect(stderr.split('\n')).toEqual([
    'kreplay: warning: 3 of 205 events are missing (1.5 %) from 2025-11-21T00:00:00.000005000Z to ' +
      '2025-11-21T00:00:00.000006000Z: the agent did not drain the ring buffer in time',
    '',
  ]);
  expect((await events('--to', `${START}`)).stderr).toBe('');
});

test('many losses of one cause are one line', async () => {
  const lossy = await served(
    recorded(rows, (writer) => {
      for (let i = 0n; i < 40n; i++) {
        const at = START + i * 1_000_000_000n;
        writer.recordLoss({ cause: 'end_missed', eventType: null, count: 2, fromNs: at, toNs: at + 1000n });
        writer.flush();
      }
      writer.recordLoss({ cause: 'ring_full', eventType: null, count: 3, fromNs: START, toNs: START + 1000n });
    }),
  );
  const { stderr } = await hosted('events', '--url', lossy.url, '--limit', '1');
  expect(stderr.trimEnd().split('\n')).toEqual([
    expect.stringMatching(
      /^kreplay: warning: 80 of 282 events are missing \(28 %\) in 40 places from 2025-11-21T00:00:00\S+ to 2025-11-21T00:00:39\S+: the event ended without/,
    ),
    expect.stringMatching(
      /^kreplay: warning: 3 of 205 events are missing \(1\.5 %\) from \S+ to \S+: the agent did not drain the ring buffer in time$/,
    ),
  ]);
});

test('a tiny loss is one short line that names its share, and a hostile node name moves no cursor', async () => {
  const lossy = await served(
    openRecordingStore(
      undefined,
      ['a\u001b[2J', 'b'].map((node) =>
        recordingPath(
          recordedOn(node, rows, (writer) =>
            writer.recordLoss({ cause: 'end_missed', eventType: null, count: 1, fromNs: START, toNs: START + 5000n }),
          ),
        ),
      ),
    ),
  );
  const { stderr } = await hosted('events', '--url', lossy.url, '--limit', '1');
  const reason = 'the event ended without the kernel running the program that records it';
  expect(stderr.trimEnd().split('\n')).toEqual([
    `kreplay: warning: 1 of 203 events is missing (0.49 %) on a\\u{1b}[2J: ${reason}`,
    `kreplay: warning: 1 of 203 events is missing (0.49 %) on b: ${reason}`,
  ]);
});

test.each([
  [['--transaction', 'tx-1'], 1],
  [['--service', 'cart,other', '--service', 'none'], 1],
  [['--node', 'test-node', '--type', 'block_io'], 1],
  [['--type', 'block_io,sys_write', '--from', '2025-11-21T00:00:00Z', '--to', `${START + 2n}`], 2],
  [['--min-duration', '1s'], 1],
  [['--max-duration', '999ns'], 1],
  [['--min-duration', '1.234567ms', '--max-duration', '1.234567ms'], 1],
  [['--pid', '7', '--comm', 'cart', '--failed'], 1],
  [['--to', '-1h'], 1],
  [['--trace', '0af7651916cd43dd8448eb211c80319c'], 0],
  [['--order', 'desc', '--limit', '5'], 5],
])('%j finds %s', async (args, count) => {
  const { code, stdout } = await events(...args);
  expect([code, stdout.split('\n').length - 1]).toEqual([0, count]);
});

test.each([
  ['--nothing'],
  ['--from', 'yesterday'],
  ['--min-duration', '5'],
  ['--limit', '0'],
  ['--limit', 'ten'],
  ['--pid', 'x'],
  ['--order', 'up'],
  ['--output', 'xml'],
  ['--url', 'ftp://example.org'],
  ['--url', 'localhost:1'],
  ['superfluous'],
])('%s %s is a usage error', async (...args) => {
  const { code, stdout, stderr } = await hosted('events', ...args.filter((arg) => arg !== undefined));
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/^error: .+\nSee kreplay events --help\n$/);
});

test('an error of the daemon is printed as one line', async () => {
  const { code, stdout, stderr } = await events('--type', 'sys_read');
  expect([code, stdout, stderr]).toEqual([
    1,
    '',
    'kreplay: event_type: "sys_read" is not an event type; known are: sys_write, block_io, sys_sync (invalid_parameter)\n',
  ]);
});

async function elsewhere<Result>(answer: RequestListener, work: (url: string) => Promise<Result>): Promise<Result> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    return await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test('without a daemon the command explains how to start one', async () => {
  const url = await elsewhere(
    () => {},
    async (closedLater) => closedLater,
  );
  const { code, stderr } = await hosted('events', '--url', url);
  expect(code).toBe(1);
  expect(stderr).toMatch(/^kreplay: no daemon at http:.*`kreplay daemon`.*\n$/);
  const socket = await hosted('events', '--url', 'unix:/nowhere/at/all.sock');
  expect([socket.code, socket.stderr]).toEqual([1, expect.stringMatching(/^kreplay: no daemon at unix:/)]);
});

test('another server is not mistaken for a daemon', async () => {
  const answer: RequestListener = (_req, res) => res.writeHead(500, { 'content-type': 'text/html' }).end('<h1>no</h1>');
  const { code, stderr } = await elsewhere(answer, (url) => hosted('events', '--url', url));
  expect([code, stderr]).toEqual([1, 'kreplay: unexpected answer, status 500: is this a kreplay daemon?\n']);
});

test('a truncated answer is a failure', async () => {
  const answer: RequestListener = (_req, res) => {
    res.writeHead(200, { 'content-type': 'application/x-ndjson', 'kreplay-lost': '0' });
    res.write('{"a":1}\n', () => res.destroy());
  };
  const { code, stdout, stderr } = await elsewhere(answer, (url) => hosted('events', '--url', url));
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/^kreplay: the daemon's answer broke off: .+\n$/);
});

test('a reader that stops early is not a failure', async () => {
  const endless: RequestListener = (req, res) => {
    res.writeHead(200, { 'content-type': 'application/x-ndjson', 'kreplay-lost': '0' });
    const write = () => {
      while (!res.destroyed && res.write(`{"a":"${'x'.repeat(1000)}"}\n`));
    };
    res.on('drain', write);
    req.on('close', () => res.off('drain', write));
    write();
  };
  await elsewhere(endless, async (url) => {
    const { child, printed, ended } = start('events', '--url', url);
    await printed(/x/);
    child.stdout!.destroy();
    const { code, stderr } = await ended;
    expect([code, stderr]).toEqual([0, '']);
  });
});
