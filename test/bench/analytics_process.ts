/**
 * `node analytics_process.ts SIDE '{"path", ...}'`: asks one store the questions of analytics.bench.ts, in a process of
 * its own. Prints one line of JSON: the nanoseconds that each took.
 */
import { createRequire } from 'node:module';
import Database from 'better-sqlite3';
import { type EventFilter, openReader, type RecordingScanRequest } from '../../agent/recording/read/reader.ts';
import { createEmbeddedStore } from '../../daemon/store/embedded/embedded_store.ts';
import { openRecordingStore } from '../../daemon/store/embedded/recording_store.ts';
import {
  type AnalyticsRequest,
  type AnalyticsSide,
  type Answered,
  QUESTIONS,
  type Question,
} from './analytics_questions.ts';
import { ABSENT_PID, RARE } from './event_stream.ts';
import { median } from './statistics.ts';

type Answers = Record<Question, () => number | Promise<number>>;

const ROUNDS = 5;
const { minDurationNs, service } = RARE;

function kreplay({ path, transaction }: AnalyticsRequest): Answers {
  const reader = openReader(path);
  const store = createEmbeddedStore(openRecordingStore(undefined, [path]));
  const rows = (request: RecordingScanRequest) => {
    let found = 0;
    for (const { rowCount } of reader.scan(request)) found += rowCount;
    return found;
  };
  const counted = (filter: EventFilter) => () => rows({ filter, columns: [], order: 'none', reusesMemory: true });
  return {
    count_pid: counted({ pid: ABSENT_PID }),
    count_duration: counted({ minDurationNs }),
    count_service: counted({ services: [service] }),
    rows_duration: () => rows({ filter: { minDurationNs } }),
    rows_service: () => rows({ filter: { services: [service] } }),
    sums: async () =>
      (await end(store.computeStats({ filter: {}, bucketNs: undefined, groupBy: ['service', 'event_type'] }))).stats
        .length,
    slowest: async () => (await end(store.findSlowest({ filter: {}, limit: 20 }))).events.length,
    transaction: () => rows({ filter: { transactionId: transaction } }),
  };
}

async function end<Value>(steps: AsyncGenerator<void, Value>): Promise<Value> {
  for (;;) {
    const step = await steps.next();
    if (step.done) return step.value;
  }
}

const OF_SERVICE = 'service IN (SELECT name_id FROM name WHERE text = ?)';
/** The index of contexts leaves 0 out. */
const OF_TRANSACTION = 'context > 0 AND context IN (SELECT context_id FROM context WHERE transaction_id = ?)';

function rowEach({ path, transaction }: AnalyticsRequest): Answers {
  const database = new Database(path, { readonly: true });
  const count = (sql: string, ...values: unknown[]) => {
    const statement = database.prepare<unknown[], number>(`SELECT count(*) FROM event WHERE ${sql}`).pluck();
    return () => statement.get(...values)!;
  };
  const rows = (sql: string, ...values: unknown[]) => {
    const statement = database.prepare(`SELECT * FROM event ${sql}`).raw().safeIntegers();
    return () => statement.all(...values).length;
  };
  const inOrder = 'ORDER BY timestamp_ns, event_number';
  const sums = database.prepare(
    'SELECT count(*), sum(duration_ns), max(duration_ns) FROM event GROUP BY service, event_type',
  );
  return {
    count_pid: count('pid = ?', ABSENT_PID),
    count_duration: count('duration_ns >= ?', minDurationNs),
    count_service: count(OF_SERVICE, service),
    rows_duration: rows(`WHERE duration_ns >= ? ${inOrder}`, minDurationNs),
    rows_service: rows(`WHERE ${OF_SERVICE} ${inOrder}`, service),
    sums: () => sums.all().length,
    slowest: rows('ORDER BY duration_ns DESC LIMIT 20'),
    transaction: rows(`WHERE ${OF_TRANSACTION} ${inOrder}`, transaction),
  };
}

/** What this file uses of @duckdb/node-api, which is only there while it is measured. */
interface DuckDb {
  DuckDBInstance: {
    create(path: string, options: Record<string, string>): Promise<{ connect(): Promise<Connection> }>;
  };
}
interface Connection {
  run(sql: string): Promise<{ fetchAllChunks(): Promise<{ rowCount: number; getColumns(): unknown[][] }[]> }>;
}

async function duckdb({ path, packages, transaction }: AnalyticsRequest): Promise<Answers> {
  const { DuckDBInstance }: DuckDb = createRequire(`${packages}/package.json`)('@duckdb/node-api');
  const connection = await (await DuckDBInstance.create(path, { threads: '1', access_mode: 'READ_ONLY' })).connect();
  const chunks = async (sql: string) => (await connection.run(sql)).fetchAllChunks();
  const rows = (sql: string) => async () => (await chunks(sql)).reduce((sum, { rowCount }) => sum + rowCount, 0);
  const count = (where: string) => async () => {
    const [chunk] = await chunks(`SELECT count(*) FROM events WHERE ${where}`);
    return Number(chunk!.getColumns()[0]![0]);
  };
  const inOrder = 'ORDER BY timestamp_ns, event_id';
  const sums = 'count(*), sum(duration_ns), approx_quantile(duration_ns, 0.99)';
  return {
    count_pid: count(`pid = ${ABSENT_PID}`),
    count_duration: count(`duration_ns >= ${minDurationNs}`),
    count_service: count(`service_name = '${service}'`),
    rows_duration: rows(`SELECT * FROM events WHERE duration_ns >= ${minDurationNs} ${inOrder}`),
    rows_service: rows(`SELECT * FROM events WHERE service_name = '${service}' ${inOrder}`),
    sums: rows(`SELECT service_name, event_type, ${sums} FROM events GROUP BY 1, 2`),
    slowest: rows('SELECT * FROM events ORDER BY duration_ns DESC LIMIT 20'),
    transaction: rows(`SELECT * FROM events WHERE transaction_id = '${transaction}' ${inOrder}`),
  };
}

const SIDES: Record<AnalyticsSide, (request: AnalyticsRequest) => Answers | Promise<Answers>> = {
  kreplay,
  row_each: rowEach,
  duckdb,
};

/** The first time compiles the code and fills the caches. */
async function timed(ask: () => number | Promise<number>): Promise<Answered> {
  let found = await ask();
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const startMs = performance.now();
    found = await ask();
    times.push((performance.now() - startMs) * 1e6);
  }
  return { ns: median(times), found };
}

const [side, request] = process.argv.slice(2) as [AnalyticsSide, string];
const answers = await SIDES[side](JSON.parse(request));
const answered = {} as Record<Question, Answered>;
for (const question of Object.keys(QUESTIONS) as Question[]) answered[question] = await timed(answers[question]);
process.stdout.write(`${JSON.stringify(answered)}\n`);
process.exit();
