/**
 * Measures how long answers from the tables of a fleet take, beside the same questions to a table as other senders fill
 * it: one row for each event, sorted by service and time.
 */
import { once } from 'node:events';
import { mkdirSync, symlinkSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ClickHouseServer, endServers, startServer } from '../clickhouse/server.ts';
import { type BenchContext, BenchError, type BenchResult } from './bench.ts';
import { START_NS, transactionName } from './event_stream.ts';
import { ROW_COLUMNS } from './fleet_sender.ts';
import { largeStore } from './large_store.ts';
import { freePort, KREPLAY, run as runProgram, start } from './process.ts';
import { percentile } from './statistics.ts';
import { scatteredPlaces } from './store_reads.ts';

export const summary = 'how long answers from the tables of a fleet take';
export const unit = 'ms, 95th percentile, the hundred events of a transaction';

const EVENTS = 10_000_000;
const SHAPE = { eventsPerSecond: 10_000, eventsPerFlush: 4096 };
const TIMES = 60;
/** Looks in a row that find no merge. */
const MERGED_LOOKS = 6;
const TRANSACTION_MS_MAX = 20;
const PAGE_MS_MAX = 50;

/** Where the table of other senders has what it is filled with from ours. */
const FROM_OURS: Readonly<Record<string, string>> = {
  event_id: "concat(lower(hex(recording)), '-', lower(hex(number)))",
  service_name: 'service',
  trace_id: 'lower(hex(trace_id))',
  span_id: 'lower(hex(span_id))',
  file: 'sys_write_file',
  syscall: 'sys_write_syscall',
  operation: 'block_io_operation',
  device: 'block_io_device',
  bytes: 'block_io_bytes',
  bytes_requested: 'sys_write_bytes_requested',
  sector: 'block_io_sector',
  queue_ns: 'block_io_queue_ns',
};

interface Question {
  text: string;
  /** What the daemon is asked for; `place` is from 0 to 1. */
  path(place: number): string;
  sql(place: number): string;
}

interface Times {
  p50: number;
  p95: number;
}

function questionsOf(events: number, transactions: number): Record<string, Question> {
  const fromNs = (place: number) => START_NS + BigInt(Math.floor((place * 0.9 * events * 1e9) / SHAPE.eventsPerSecond));
  const idOf = (place: number) => transactionName(Math.floor(place * transactions));
  const rows = 'SELECT * FROM peer.rows';
  const first = 'ORDER BY timestamp_ns, event_id LIMIT 1000';
  return {
    transaction: {
      text: 'the hundred events of a transaction',
      path: (place) => `/api/events?transaction_id=${idOf(place)}`,
      sql: (place) => `${rows} WHERE transaction_id = '${idOf(place)}' ${first}`,
    },
    filtered: {
      text: 'a page of 1000, of a service and a duration',
      path: (place) => `/api/events?service=pay&min_duration_ms=1&limit=1000&from=${fromNs(place)}`,
      sql: (place) =>
        `${rows} WHERE service_name = 'pay' AND duration_ns >= 1000000 AND timestamp_ns >= ${fromNs(place)} ${first}`,
    },
    page: {
      text: 'a page of 1000, from a time on',
      path: (place) => `/api/events?limit=1000&from=${fromNs(place)}`,
      sql: (place) => `${rows} WHERE timestamp_ns >= ${fromNs(place)} ${first}`,
    },
    slowest: {
      text: 'the ten slowest transactions',
      path: () => '/api/transactions?sort=slowest&limit=10',
      sql: () =>
        "SELECT transaction_id, min(timestamp_ns) AS a, max(timestamp_ns + duration_ns) - a AS d FROM peer.rows WHERE transaction_id != '' GROUP BY transaction_id ORDER BY d DESC LIMIT 10",
    },
    stats: {
      text: 'counts and quantiles by service',
      path: () => '/api/stats?group_by=service',
      sql: () =>
        'SELECT service_name, count(), quantiles(0.5, 0.9, 0.99)(duration_ns) FROM peer.rows GROUP BY service_name',
    },
  };
}

export async function run(context: BenchContext): Promise<BenchResult> {
  const { buildFolder, folder, signal, sizes, progress } = context;
  const events = sizes.events ?? EVENTS;
  progress(`writing ${events} events, unless they are kept from the last time`);
  const { path, transactions } = await largeStore('kreplay', { events, ...SHAPE }, buildFolder, signal);
  const server = await startServer();
  try {
    progress(`sending ${events} events`);
    await fill(server, path, folder, signal);
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const listen = ['--listen', `127.0.0.1:${port}`, '--no-state', '--log-level', 'error'];
    const daemon = start([...KREPLAY, 'daemon', '--fleet-url', server.url, ...listen], { signal, channel: true });
    try {
      await daemon.ready;
      const found = new Map<string, { ours: Times; table: Times }>();
      const questions = questionsOf(events, transactions);
      for (const [name, question] of Object.entries(questions)) {
        progress(question.text);
        const times = name === 'stats' || name === 'slowest' ? 10 : TIMES;
        const ours = await timesOf(times, (place) => get(`${url}${question.path(place)}`));
        const table = await timesOf(times, (place) => get(server.url, question.sql(place)));
        found.set(name, { ours, table });
      }
      return resultOf(events, questions, found);
    } finally {
      daemon.stop();
      await daemon.ended;
    }
  } finally {
    await endServers();
  }
}

async function fill(server: ClickHouseServer, path: string, folder: string, signal: AbortSignal): Promise<void> {
  const data = join(folder, 'data');
  mkdirSync(data);
  symlinkSync(path, join(data, 'recording.kreplay'));
  await runProgram([...KREPLAY, 'fleet', 'init', '--url', server.url], { signal });
  const places = ['--data', data, '--state', join(data, 'ship')];
  await runProgram([...KREPLAY, 'ship', '--once', ...places, '--url', server.url], { signal });
  await server.sql('CREATE DATABASE peer');
  const columns = ROW_COLUMNS.map(([name, type]) => `${name} ${type}`).join();
  await server.sql(
    `CREATE TABLE peer.rows (${columns}) ENGINE = MergeTree PARTITION BY intDiv(timestamp_ns, 3600000000000) ORDER BY (service_name, timestamp_ns)`,
  );
  const from = ROW_COLUMNS.map(([name]) => FROM_OURS[name] ?? name).join();
  await server.sql(`INSERT INTO peer.rows SELECT ${from} FROM kreplay.event`);
  await untilMerged(server, signal);
}

/** What a server merges after a bulk load is none of the time that a question takes. */
async function untilMerged(server: ClickHouseServer, signal: AbortSignal): Promise<void> {
  for (let quiet = 0; quiet < MERGED_LOOKS; ) {
    await sleep(500, undefined, { signal });
    quiet = String(await server.sql('SELECT count() FROM system.merges')).trim() === '0' ? quiet + 1 : 0;
  }
}

const agent = new Agent({ keepAlive: true, maxSockets: 1 });

async function get(url: string, statement?: string): Promise<Buffer> {
  const sent = request(url, { agent, method: statement === undefined ? 'GET' : 'POST' });
  sent.end(statement === undefined ? undefined : `${statement} FORMAT JSONEachRow`);
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  const body = await buffer(answer);
  if (answer.statusCode !== 200) throw new BenchError(`${url}: ${answer.statusCode} ${body.toString().slice(0, 300)}`);
  return body;
}

/** The first few warm up caches. */
async function timesOf(times: number, ask: (place: number) => Promise<Buffer>): Promise<Times> {
  const places = scatteredPlaces(times + 3);
  const tookMs: number[] = [];
  for (const place of places) {
    const sinceMs = performance.now();
    const { length } = await ask(place);
    if (length === 0) throw new BenchError('an answer is empty');
    tookMs.push(performance.now() - sinceMs);
  }
  const counted = tookMs.slice(3);
  return { p50: percentile(counted, 0.5), p95: percentile(counted, 0.95) };
}

function resultOf(
  events: number,
  questions: Record<string, Question>,
  found: ReadonlyMap<string, { ours: Times; table: Times }>,
): BenchResult {
  const p95 = (name: string) => found.get(name)!.ours.p95;
  const target = (name: string, most: number) => ({
    text: `${questions[name]!.text}: at most ${most} ms for 95 of 100`,
    measured: p95(name).toFixed(1),
    met: p95(name) <= most,
  });
  const shown = ({ p50, p95: rare }: Times) => `${p50.toFixed(1)} / ${rare.toFixed(1)}`;
  return {
    value: p95('transaction'),
    anchors: { table: found.get('transaction')!.table.p95 },
    targets: [target('transaction', TRANSACTION_MS_MAX), target('filtered', PAGE_MS_MAX)],
    table: [
      [`${events} events; ms, p50 / p95`, 'kreplay daemon', 'SQL on the other table'],
      ...[...found].map(([name, { ours, table }]) => [questions[name]!.text, shown(ours), shown(table)]),
    ],
    details: { events, found: Object.fromEntries(found) },
  };
}
