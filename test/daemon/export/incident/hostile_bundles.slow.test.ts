/**
 * Tests bundles from untrusted sources: a file that no kreplay writes is refused at once, with a clear message, by
 * every command that reads it, and a daemon serves the others without it.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import fc from 'fast-check';
import { RecordingError } from '../../../../agent/recording/format/errors.ts';
import { PAGE_BYTES } from '../../../../agent/recording/format/schema.ts';
import { isWhole, verifyRecording } from '../../../../agent/recording/read/verify.ts';
import { times } from '../../../repeats.ts';
import { startWith } from '../../command_line.ts';
import { hosted, hostedMeasured } from '../../hosted.ts';
import { newFolder, recorded, recordingPath, START } from '../../recorded.ts';
import { changeWith, readWith } from '../exported.ts';

const REFUSED = /^kreplay: .*(no kreplay makes|is damaged|any recording has|not a regular file)/;
/** The most CPU time that is allowed beyond that of an ordinary import. */
const MORE_CPU_MS_MAX = 1000;
const REFUSED_MS_MAX = 15_000;
const MORE_MEMORY_KIB_MAX = 100 * 1024;
const ANSWERED_MS_MAX = 10_000;
const WAITED_MS_MAX = 30_000;

/** A table of the numbers from 0. */
const numbers = (count: number) =>
  `WITH RECURSIVE numbers (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i < ${count - 1})`;

const TEXT = 'hex(zeroblob(1000000))';

const SEGMENT_COLUMNS = `first_number, end_number, sealed, event_count, min_timestamp_ns, max_timestamp_ns,
  max_duration_ns, type_mask, name_from, file_from, context_from, name_end, file_end, context_end, services, facts, data`;

const HOSTILE: Record<string, string> = {
  'a generated column': `DROP INDEX name_by_text; DROP TABLE name;
    CREATE TABLE name (name_id INTEGER PRIMARY KEY, text TEXT AS (hex(zeroblob(200000000))))`,
  'an index of an expression': 'CREATE INDEX evil ON name (hex(text))',
  'a partial index': "CREATE INDEX evil ON name (text) WHERE text > 'a'",
  'another index by a known name': `DROP INDEX segment_by_start;
    CREATE INDEX segment_by_start ON segment (min_timestamp_ns) WHERE sealed = 2`,
  'a table with a rowid that should have none':
    'DROP TABLE service; CREATE TABLE service (name_id INTEGER PRIMARY KEY)',
  'a trigger': 'CREATE TRIGGER evil AFTER INSERT ON pin BEGIN DELETE FROM segment; END',
  'a long name': `UPDATE name SET text = ${TEXT}`,
  'a long list of services': 'UPDATE transaction_summary SET services = zeroblob(10000000)',
  'a long cause': `UPDATE loss SET cause = ${TEXT}`,
  'no start time': "UPDATE meta SET value = 'zzz' WHERE key = 'created_ns'",
  'events before time': 'UPDATE segment SET min_timestamp_ns = -9223372036854775808',
  'a number that no event has': 'UPDATE segment SET first_number = 4611686018427387904',
  'more events than any segment has': 'UPDATE segment SET event_count = 9007199254740993',
  'an end that no recording has': "UPDATE meta SET value = 9223372036854775807 WHERE key = 'next_number'",
  'shifted columns': `UPDATE column_name SET column_id = column_id + 1000;
    UPDATE column_name SET column_id = column_id - 999`,
  'a quarter of a million losses': `INSERT INTO loss (from_ns, to_ns, cause, count)
    ${numbers(250_000)} SELECT ${START} + i * 10, ${START} + i * 10 + 5, 'cause ' || i, 1 FROM numbers`,
  'hashes of contexts that are not there': `INSERT OR IGNORE INTO context_hash
    ${numbers(524_288)} SELECT i << 44 FROM numbers`,
  'hashes of contexts that are far apart': `INSERT OR IGNORE INTO context_hash
    ${numbers(524_288)} SELECT i << 44 FROM numbers;
    UPDATE context SET context_id = 4294967295 WHERE context_id = (SELECT max(context_id) FROM context)`,
  'negative losses': 'UPDATE loss SET count = -1',
  'a column with a number below 1':
    'UPDATE column_name SET column_id = -1 WHERE column_id = (SELECT min(column_id) FROM column_name)',
  'a column with a number that no segment has':
    'UPDATE column_name SET column_id = 65536 WHERE column_id = (SELECT max(column_id) FROM column_name)',
  // Each has 4096 rows in some bytes, and none of their columns.
  'many segments without columns': `UPDATE segment SET facts = NULL, event_count = 4096, end_number = first_number + 4096,
      data = x'218bcfb700100200000000100000000000000000010000100000000000000000';
    INSERT INTO segment (${SEGMENT_COLUMNS}) ${numbers(5000)}
      SELECT ${SEGMENT_COLUMNS.replace('first_number', '4096 * (i + 1)').replace('end_number', '4096 * (i + 2)')}
      FROM segment, numbers WHERE first_number = 0;
    UPDATE meta SET value = 100000000 WHERE key = 'next_number'; DELETE FROM segment_piece`,
};

function bundle(): string {
  const loss = { cause: 'ring_full', eventType: null, count: 3, fromNs: START, toNs: START + 5n } as const;
  const rows = Array.from({ length: 50 }, (_, i) => ({ at: START + BigInt(i), transaction: `order-${i % 3}` }));
  return recordingPath(recorded(rows, (writer) => writer.recordLoss(loss)));
}

let ordinary: Awaited<ReturnType<typeof hostedMeasured>>;
/** A daemon with a good import, which gets the bad ones beside it. */
let daemon: { url: string; imported: string; stop(): Promise<void> };

beforeAll(async () => {
  const data = newFolder();
  ordinary = await hostedMeasured('import', bundle(), '--data', data);
  expect(ordinary.code).toBe(0);
  const running = startWith({}, 'daemon', '--data', data, '--listen', '127.0.0.1:0');
  const [, url] = /at (http\S+)/.exec(await running.printed(/at http\S+/))!;
  daemon = {
    url: url!,
    imported: join(data, 'imported'),
    async stop() {
      running.child.kill();
      await running.ended;
    },
  };
}, 30_000);

afterAll(() => daemon?.stop());

/** Replaces the previous bad import. */
function putBeside(path: string): void {
  copyFileSync(path, join(daemon.imported, '.coming'));
  renameSync(join(daemon.imported, '.coming'), join(daemon.imported, 'hostile.kreplay'));
}

function isFoundWhole(path: string): boolean {
  try {
    return isWhole(verifyRecording(path));
  } catch (error) {
    if (error instanceof RecordingError) return false;
    throw error;
  }
}

async function answer(path: string) {
  // While this process verifies a file, the daemon closes connections that rest.
  const headers = { connection: 'close' };
  const res = await fetch(`${daemon.url}${path}`, { headers, signal: AbortSignal.timeout(ANSWERED_MS_MAX) });
  return { status: res.status, json: (await res.json()) as never };
}

test.each(Object.keys(HOSTILE))(
  '%s',
  async (name) => {
    const path = bundle();
    changeWith(path, HOSTILE[name]!);
    const startMs = performance.now();
    const imported = await hostedMeasured('import', path, '--data', newFolder());
    expect(imported).toMatchObject({ code: 1, stderr: expect.stringMatching(REFUSED) });
    expect(imported.stderr).not.toMatch(/\n\s+at /);
    expect(performance.now() - startMs).toBeLessThan(REFUSED_MS_MAX);
    expect(imported.cpuMs - ordinary.cpuMs).toBeLessThan(MORE_CPU_MS_MAX);
    expect(imported.memoryKib - ordinary.memoryKib).toBeLessThan(MORE_MEMORY_KIB_MAX);
    expect(isFoundWhole(path)).toBe(false);
    putBeside(path);
    for (const route of ['/api/events?limit=1000', '/api/transactions']) {
      const { status, json } = await answer(route);
      expect([route, status, json]).toEqual([route, 200, expect.objectContaining({})]);
      const { events, coverage } = json as { events?: object[]; coverage: { complete: boolean } };
      if (events) expect(events.length).toBeGreaterThanOrEqual(50);
      expect(coverage.complete).toBe(false);
    }
    expect(await answer('/readyz')).toMatchObject({ status: 200 });
  },
  30_000,
);

test.each([
  ['unknown causes are reported as one, and many gaps as few', 'cause ', 'unknown'],
  ['losses of many services are reported as few', 'marker_flood service', 'marker_flood'],
])('%s', async (_, reason, cause) => {
  const path = bundle();
  changeWith(
    path,
    `INSERT INTO loss (from_ns, to_ns, cause, count)
     ${numbers(90_000)} SELECT ${START} + i * 10000000, ${START} + i * 10000000 + 5, '${reason}' || i, 1 FROM numbers`,
  );
  putBeside(path);
  const { status, json } = await answer('/api/events?limit=1&coverage=full');
  const { coverage } = json as { coverage: { lost: number; gaps: { cause: string; lost: number }[] } };
  expect(status).toBe(200);
  expect(coverage.lost).toBe(90_006);
  expect(coverage.gaps.length).toBeLessThanOrEqual(1000);
  expect([...new Set(coverage.gaps.map(({ cause }) => cause))].sort()).toEqual(
    expect.arrayContaining(['ring_full', cause]),
  );
  expect(coverage.gaps.reduce((sum, gap) => sum + gap.lost, 0)).toBe(90_006);
});

describe('a bundle of which any value was changed', () => {
  const ROUTES = [
    ...['/api/events?limit=50', '/api/events?limit=50&order=desc', '/api/events?sort=slowest&limit=5'],
    ...['/api/events?transaction_id=order-1', '/api/transactions?limit=50', '/api/transactions?sort=slowest'],
    ...[
      '/api/transactions/order-1',
      '/api/transactions/order-1/summary',
      '/api/transactions/order-1/explain',
      '/api/services',
      '/api/nodes',
    ],
    ...[
      '/api/stats?group_by=service,event_type',
      '/api/stats?group_by=quality',
      '/api/heatmap',
      '/api/heatmap?of=events',
    ],
    ...['/api/differences', '/api/pins', '/readyz', '/metrics'],
  ];
  const OF_ORDER = JSON.stringify({ transaction_id: 'order-1', extra_latency_ns: 1_000_000 });
  const NUMBERS = ['-1', '0', '1', '4097', '65536', '4294967296', '9007199254740992', '9223372036854775807'];
  const TEXTS = ["''", 'char(0)', "'../../etc/passwd'", 'hex(zeroblob(500000))'];
  const BLOBS = ["x''", "x'ffffffffffffffff'", 'zeroblob(3)', 'zeroblob(5000000)'];
  const VALUES: Readonly<Record<string, readonly string[]>> = {
    INTEGER: NUMBERS,
    TEXT: TEXTS,
    BLOB: BLOBS,
    ANY: [...NUMBERS, ...TEXTS],
  };

  /** Statements that set a value of each column, in one row or in all, or remove the rows of each table. */
  function changes(): string[] {
    const columns = readWith('sqlite3', [
      ...['-readonly', '-separator', ' ', bundle()],
      `SELECT entry.name, attribute.name, attribute.type FROM sqlite_schema AS entry
       JOIN pragma_table_info(entry.name) AS attribute WHERE entry.type = 'table'`,
    ]);
    const found = columns
      .trim()
      .split('\n')
      .map((line) => line.split(' ') as [string, string, string]);
    const tables = new Set(found.map(([table]) => table));
    return [
      ...[...tables].map((table) => `DELETE FROM ${table}`),
      ...found.flatMap(([table, column, type]) =>
        (VALUES[type] ?? []).flatMap((value) => [
          `UPDATE OR IGNORE ${table} SET ${column} = ${value}`,
          `UPDATE OR IGNORE ${table} SET ${column} = ${value}
           WHERE ${column} = (SELECT ${column} FROM ${table} LIMIT 1)`,
        ]),
      ),
    ];
  }

  const statusOf = async (route: string, body?: string) => {
    const json = { 'Content-Type': 'application/json' };
    const init = body === undefined ? {} : { method: 'POST', headers: json, body };
    const res = await fetch(`${daemon.url}${route}`, { ...init, signal: AbortSignal.timeout(ANSWERED_MS_MAX) });
    await res.arrayBuffer();
    return res.status;
  };

  test('makes no endpoint fail', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...changes()), async (change) => {
        const path = bundle();
        try {
          changeWith(path, change);
        } catch {
          // A value that the table itself does not allow.
          return;
        }
        putBeside(path);
        for (const route of ROUTES) expect([change, route, await statusOf(route)]).not.toContain(500);
        for (const route of ['/api/replay/whatif', '/api/replay/sessions'])
          expect([change, route, await statusOf(route, OF_ORDER)]).not.toContain(500);
      }),
      { numRuns: times(40), endOnFailure: true },
    );
  }, 120_000);
});

/** Runs a command that may wait forever for what a pipe never gets. */
async function apart(...args: string[]) {
  const { child, ended } = startWith({}, ...args);
  const late = setTimeout(() => child.kill('SIGKILL'), WAITED_MS_MAX);
  return ended.finally(() => clearTimeout(late));
}

describe('an import that is not a regular file', () => {
  const COMMANDS = [
    ['import', '--data', newFolder()],
    ['verify'],
    ['export', '--transaction', 'order-1', '--recording'],
    ['sql', 'SELECT 1', '--recording'],
  ];

  test.each(COMMANDS)(
    'is refused by %s',
    async (...command) => {
      const folder = newFolder();
      const pipe = join(folder, 'pipe.kreplay');
      execFileSync('mkfifo', [pipe]);
      const socket = join(folder, 'socket.kreplay');
      const server = createServer().listen(socket);
      for (const path of [pipe, socket, '/dev/null']) {
        const { code, stdout, stderr } = await (path === pipe ? apart : hosted)(...command, path);
        expect([path, code, stdout + stderr]).toEqual([path, 1, expect.stringContaining('is not a regular file')]);
      }
      server.close();
    },
    60_000,
  );

  test('hides no other import', async () => {
    mkdirSync(daemon.imported, { recursive: true });
    execFileSync('mkfifo', [join(daemon.imported, 'pipe.kreplay')]);
    const { status, json } = await answer('/api/events?limit=1');
    expect([status, json]).toEqual([200, expect.objectContaining({ events: [expect.anything()] })]);
  });
});

test('a file named with --data is checked like any foreign file', async () => {
  const path = bundle();
  changeWith(path, HOSTILE['a quarter of a million losses']!);
  const running = startWith({}, 'daemon', '--data', path, '--listen', '127.0.0.1:0');
  const [, url] = /at (http\S+)/.exec(await running.printed(/at http\S+/))!;
  const res = await fetch(`${url}/api/events`, { signal: AbortSignal.timeout(ANSWERED_MS_MAX) });
  expect([res.status, await res.json()]).toEqual([503, expect.objectContaining({ code: 'recording_corrupt' })]);
  running.child.kill();
  await running.ended;
  const options = ['sql', 'SELECT count(*) FROM event', '--recording', path];
  expect(await hosted(...options)).toMatchObject({ code: 1, stderr: expect.stringMatching(REFUSED) });
}, 30_000);

test('a flipped bit is detected and located', async () => {
  const path = recordingPath(recorded([{ at: START, transaction: 'order-1' }]));
  expect(await hosted('verify', path)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(': whole: 1 events'),
  });
  const page = Number(
    readWith('sqlite3', ['-readonly', path, "SELECT rootpage FROM sqlite_schema WHERE name = 'pin'"]),
  );
  const bytes = readFileSync(path);
  bytes[(page - 1) * PAGE_BYTES + 100]! ^= 4;
  writeFileSync(path, bytes);
  const { code, stdout } = await hosted('verify', path, '--output', 'json');
  expect(code).toBe(1);
  const damaged = { state: 'damaged', events: 1, damaged_pages: [page], damaged_parts: ['pin'] };
  expect(JSON.parse(stdout).recordings[0]).toMatchObject(damaged);
});
