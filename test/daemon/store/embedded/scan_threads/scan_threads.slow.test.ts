/** Tests scans in threads of their own: their answers, what the main thread does meanwhile, and how they end. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { openRecordingStore } from '../../../../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../../../../daemon/store/embedded/recordings.ts';
import { createScanThreads, type ScanThreads } from '../../../../../daemon/store/embedded/scan_threads/scan_threads.ts';
import { times } from '../../../../repeats.ts';
import { type Row, recordedOn, recordingPath, START } from '../../../recorded.ts';
import { type Served, serve, served as servedHere } from '../../../served.ts';

/** More than a client that reads nothing lets the kernel keep for it. */
const EVENTS = 40_000;
const FEW = 12_000;
const NODES = ['node-0', 'node-1'];
const ndjson = { headers: { accept: 'application/x-ndjson' } };

/** Numbers beyond 2^53, names of several bytes a character, and paths longer than most events. */
function rowAt(i: number): Row {
  const common = {
    at: START + BigInt(i ^ 5) * 1_000n,
    duration: i % 997 === 0 ? 2n ** 60n + BigInt(i) : BigInt((i * 37) % 1009),
    service: ['shop', 'cart', 'naïve 服务'][i % 3]!,
    pid: 100 + (i % 3),
    result: i % 6 === 0 ? -28n : 2n ** 62n - BigInt(i),
    ...(i % 4 !== 0 && { transaction: `tx-${i % 40}` }),
  };
  if (i % 3 === 0) return { ...common, type: 'block_io', device: `sd${i % 2}`, operation: i % 2 ? 'read' : 'flush' };
  return { ...common, ...(i % 5 && { file: `/srv/${'x'.repeat(i % 5 === 1 ? 3000 : 3)}-${i % 50}.log` }) };
}

const rows = Array.from({ length: EVENTS }, (_, i) => rowAt(i));

/** One recording of all rows. */
let all: string;
/** Two recordings of some rows, which alternate. */
let some: string[];
beforeAll(() => {
  all = recordingPath(recordedOn('node-0', rows));
  const few = rows.slice(0, FEW);
  some = NODES.map((node, of) =>
    recordingPath(
      recordedOn(
        node,
        few.filter((_, i) => i % 2 === of),
      ),
    ),
  );
});

interface Threaded extends Served {
  threads: ScanThreads;
  /** Number of scans that the main thread has begun. */
  scansHere(): number;
}

async function threaded(recordings: readonly string[], start = servedHere): Promise<Threaded> {
  const opened = openRecordingStore(undefined, recordings);
  let begun = 0;
  const counted: Recordings = {
    ...opened,
    scan(request) {
      begun++;
      return opened.scan(request);
    },
    scanUnordered(request) {
      begun++;
      return opened.scanUnordered(request);
    },
  };
  const threads = createScanThreads({ data: undefined, recordings }, opened.adopt);
  return { ...(await start(counted, { scans: threads })), threads, scansHere: () => begun };
}

async function textAndTrailers(res: IncomingMessage): Promise<[string, NodeJS.Dict<string>]> {
  let text = '';
  for await (const chunk of res.setEncoding('utf8')) text += chunk;
  return [text, res.trailers];
}

describe('answers', () => {
  let here: Served;
  let there: Threaded;
  beforeAll(async () => {
    here = await serve(openRecordingStore(undefined, some));
    there = await threaded(some, serve);
  });
  afterAll(() => Promise.all([here.close(), there.close()]));

  const optional = <Value>(values: readonly Value[]) => fc.option(fc.constantFrom(...values), { nil: undefined });
  const filter = fc.record({
    service: optional(['shop', 'naïve 服务', 'none']),
    node: optional(NODES),
    event_type: optional(['sys_write', 'block_io']),
    min_duration_ms: optional(['0.0005', '1']),
    transaction_id: optional(['tx-1', 'tx-7']),
    from: optional([START + 1_000_000n]),
    to: optional([START + 11_900_000n]),
  });
  const of = <Options>(path: string, options: fc.Arbitrary<Options>) =>
    fc.tuple(filter, options).map(([where, how]) => ({ path, query: { ...where, ...how } }));
  const question = fc.oneof(
    of('/api/stats', fc.record({ bucket: optional(['1ms', '1.7ms']), group_by: optional(['service', 'node,file']) })),
    of('/api/differences', fc.record({ of: fc.constant('events'), failed: optional(['true']) })),
    of('/api/heatmap', fc.record({ of: fc.constant('events'), columns: fc.constantFrom('1', '7', '500') })),
    of('/api/events', fc.record({ sort: fc.constant('slowest'), limit: fc.constantFrom(1, 50) })),
    of('/api/events', fc.record({ order: optional(['asc', 'desc']), limit: optional([1, 2500]) })),
    fc.constant({ path: '/api/transactions/tx-3/summary', query: {} }),
    fc.constant({ path: '/api/transactions/tx-3/explain', query: {} }),
  );

  test('the bytes are those of the same scan in the thread that asks', async () => {
    await fc.assert(
      fc.asyncProperty(question, fc.boolean(), async ({ path, query }, isStream) => {
        const parameters = new URLSearchParams();
        for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, String(value));
        const sent = isStream && path === '/api/events' ? ndjson : {};
        const [expected, found] = await Promise.all(
          [here, there].map(async (one) => {
            const res = await one.open(`${path}?${parameters}`, sent);
            const { 'x-request-id': _id, date: _date, ...headers } = res.headers;
            return [res.statusCode, headers, ...(await textAndTrailers(res))];
          }),
        );
        expect(expected![0]).toBe(200);
        expect(found).toEqual(expected);
      }),
      { numRuns: times(8) },
    );
  });

  test('a Problem keeps its code and text', async () => {
    const url = '/api/stats?bucket=1us&group_by=service';
    const { status, json, text } = await there.get(url);
    expect([status, json.code, text]).toEqual([400, 'too_many_groups', (await here.get(url)).text]);
  });
});

test('no step of a long scan runs on the main thread', async () => {
  const one = await threaded([all]);
  const stream = async () => (await one.lines('/api/events')).length;
  const stats = async () => (await one.get('/api/stats?group_by=service')).json.total.count;
  const slowest = async () => (await one.get('/api/events?sort=slowest&limit=3')).json.events.length;
  const found = await Promise.all([stream(), stats(), slowest(), stream(), stats(), slowest()]);
  expect(found).toEqual([EVENTS, EVENTS, 3, EVENTS, EVENTS, 3]);
  expect([one.scansHere(), one.threads.running]).toEqual([0, 0]);
  // A page is read where it is asked for.
  await one.get('/api/events?limit=1');
  expect([one.scansHere(), one.threads.running]).toEqual([1, 0]);
});

test('a client that leaves ends its scan', async () => {
  const one = await threaded([all]);
  const res = await one.open('/api/events', ndjson);
  await once(res, 'readable');
  // The reader stands still, and with it the scan.
  expect(one.threads.running).toBe(1);
  res.destroy();
  while (one.threads.running > 0) await sleep(1);
});

test('a segment that a thread finds damaged is a loss in the same answer', async () => {
  const count = 5000;
  const path = recordingPath(
    recordedOn(
      'node-0',
      Array.from({ length: count }, (_, i) => ({ at: START + BigInt(i) })),
    ),
  );
  const database = new Database(path);
  const FIRST = 'SELECT event_count FROM segment WHERE first_number = 0';
  const lost = database.prepare<[], number>(FIRST).pluck().get()!;
  database.exec("UPDATE segment SET data = CAST('x' || substr(data, 2) AS BLOB) WHERE first_number = 0 AND data <> ''");
  database.exec("UPDATE segment_piece SET data = CAST('x' || substr(data, 2) AS BLOB) WHERE piece_key < 256");
  database.close();
  const one = await threaded([path]);
  const [text, trailers] = await textAndTrailers(await one.open('/api/events', ndjson));
  expect(text.split('\n')).toHaveLength(count - lost + 1);
  expect(trailers).toEqual({ 'kreplay-lost': String(lost), 'kreplay-complete': 'false' });
  const other = await threaded([path]);
  expect((await other.get('/api/stats?group_by=file')).json.coverage).toMatchObject({ complete: false, lost });
  expect((await other.get('/readyz')).json.recordings[0].damaged).toBe(true);
});

test('scans fail with their thread, later ones have a new one, and none keeps the process alive', async () => {
  const run = promisify(execFile);
  const script = join(import.meta.dirname, 'scan_threads_process.ts');
  for (const ending of ['close', 'idle', 'busy']) {
    const { stdout } = await run(process.execPath, [script, ending, all]);
    const busy = ending === 'busy' ? ['shutting_down: the daemon is shutting down'] : [];
    expect(stdout.trim().split('\n')).toEqual([
      ...[String(EVENTS), 'undefined: a thread that reads recordings has ended'],
      ...[String(EVENTS), ...busy, 'done'],
    ]);
  }
});
