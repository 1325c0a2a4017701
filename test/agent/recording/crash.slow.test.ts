/**
 * Tests a writer in another process that is killed at random instants, or read while it writes. Its recording is at its
 * limit all the time, so that removal, shrinking and checkpoints also run.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import type { Loss } from '../../../agent/recording/format/losses.ts';
import { openReader } from '../../../agent/recording/read/reader.ts';
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { times } from '../../repeats.ts';
import { temporaryFolder } from './fixture.ts';

const KILLS = times(16);
const CHECK_EVERY = 5;
/** Less than the smallest limit of an agent: reached within the first rounds, and fast to read after each kill. */
const LIMIT_BYTES = 2 << 20;
/** The most time that a writer gets in each phase before it is killed. */
const OPENING_MS = 60;
const WRITING_MS = 200;
const CLOSING_MS = 40;
const MOMENTS = ['writing', 'opening', 'writing', 'closing'] as const;

let folder: ReturnType<typeof temporaryFolder>;
const children = new Map<ChildProcess, Promise<unknown>>();
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(async () => {
  for (const child of children.keys()) child.kill('SIGKILL');
  await Promise.all(children.values());
  folder.remove();
});

interface Child {
  /** Lets it open the file. */
  go(): void;
  end(): void;
  /** The last reported number before which all events are safe; -1 if there was no report. */
  safeEnd(): number;
  firstFlush(): Promise<void>;
  /** Returns the time of the kill in milliseconds since the epoch. */
  kill(): Promise<number>;
}

async function newWriter(path: string, run: number, bytes?: number): Promise<Child> {
  const args = [join(import.meta.dirname, 'fixture_writer.ts'), path, String(run), ...(bytes ? [String(bytes)] : [])];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const closed = once(child, 'close').then(() => children.delete(child));
  children.set(child, closed);
  child.stdin!.on('error', () => {});
  let last = -1;
  let rest = '';
  const said = () =>
    Promise.race([once(child.stdout!, 'data'), closed.then(() => Promise.reject(new Error('it ended')))]);
  const ready = said();
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop()!;
    const numbers = lines.filter((line) => line !== 'ready');
    if (numbers.length > 0) last = Number(numbers.at(-1));
  });
  await ready;
  return {
    go: () => void child.stdin!.write('go\n'),
    end: () => void child.stdin!.write('end\n'),
    safeEnd: () => last,
    async firstFlush() {
      // The writer reports 0 when the file exists but is still empty.
      while (last <= 0) await said();
    },
    async kill() {
      const killedMs = Date.now();
      child.kill('SIGKILL');
      await closed;
      return killedMs;
    },
  };
}

interface Contents {
  /** Number of the first event in the file, and the number after the last one. */
  first: number;
  end: number;
  /** Run, flush and row of the last event. */
  lastEvent: string;
}

/** Checks that every number from the first to the last exists once, and so does every row of every flush. */
function contentsOf(blocks: readonly NumberedBlock[]): Contents | undefined {
  const count = blocks.reduce((sum, { rowCount }) => sum + rowCount, 0);
  if (count === 0) return undefined;
  const numbers = new Float64Array(count);
  const flushes = new Map<number, { rows: number; wanted: number; first: number; rowSum: number }>();
  let at = 0;
  let lastEvent = '';
  let end = 0;
  for (const block of blocks) {
    const [run, flush] = ['pid', 'tid'].map((name) => block.columns.get(name)! as Uint32Array);
    const [rows, result] = ['duration_ns', 'result'].map((name) => block.columns.get(name)! as BigUint64Array);
    for (let row = 0; row < block.rowCount; row++) {
      const number = Number(block.numbers[row]);
      numbers[at++] = number;
      const key = run![row]! * 2 ** 32 + flush![row]!;
      const known = flushes.get(key) ?? { rows: 0, wanted: Number(rows![row]), first: number, rowSum: 0 };
      flushes.set(key, known);
      known.rows++;
      known.first = Math.min(known.first, number);
      known.rowSum += Number(result![row]);
      if (number < end) continue;
      end = number + 1;
      lastEvent = `${key}-${result![row]}`;
    }
  }
  numbers.sort();
  const first = numbers[0]!;
  expect([new Set(numbers).size, numbers.at(-1)]).toEqual([count, first + count - 1]);
  const broken = [...flushes.values()].filter(
    // Retention removes whole segments, so the oldest flush may have lost a part.
    (flush) => flush.first !== first && (flush.rows !== flush.wanted || flush.rowSum !== sumTo(flush.wanted)),
  );
  expect(broken).toEqual([]);
  return { first, end, lastEvent };
}

function sumTo(count: number): number {
  return (count * (count - 1)) / 2;
}

interface Seen {
  contents: Contents | undefined;
  losses: Loss[];
  firstNs: bigint;
}

/** Contents as a reader finds them; undefined while there is no recording yet. */
function look(path: string): Seen | undefined {
  try {
    const reader = openReader(path);
    const contents = contentsOf([...reader.scan({ columns: ['pid', 'tid', 'duration_ns', 'result'] })]);
    const losses = reader.losses();
    // An incomplete commit at the end of the log is not damage.
    expect(reader.foundDamage().any).toBe(false);
    const firstNs = reader.info().firstTimestampNs ?? 0n;
    reader.close();
    return { contents, losses, firstNs };
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'recording_missing') throw error;
    return undefined;
  }
}

/** Whether the recording reports a gap at that time, or has no events older than it. */
function isTold({ losses, firstNs }: Seen, killedMs: number): boolean {
  const ns = BigInt(killedMs) * 1_000_000n;
  const gaps = losses.filter(({ cause }) => cause === 'agent_killed' || cause === 'agent_stopped');
  return ns < firstNs || gaps.some(({ fromNs, toNs }) => fromNs <= ns && ns <= toNs);
}

function identityOf(path: string, number: number): string {
  const reader = openReader(path);
  const event = reader.event(BigInt(number))!;
  const [run, flush, row] = ['pid', 'tid', 'result'].map((name) => Number(event.columns.get(name)![0]));
  reader.close();
  return `${run! * 2 ** 32 + flush!}-${row}`;
}

function integrityOf(path: string): unknown {
  const database = new Database(path, { readonly: true });
  const found = database.pragma('integrity_check', { simple: true });
  database.close();
  return found;
}

async function letRun(child: Child, path: string, moment: (typeof MOMENTS)[number]): Promise<void> {
  if (moment === 'opening') return sleep(Math.random() * OPENING_MS);
  await child.firstFlush();
  await readUntil(path, performance.now() + Math.random() * WRITING_MS);
  if (moment === 'writing') return;
  child.end();
  await sleep(Math.random() * CLOSING_MS);
}

/** Reads next to the writer until the deadline. */
async function readUntil(path: string, deadline: number): Promise<void> {
  while (performance.now() < deadline && !existsSync(path)) await sleep(1);
  while (performance.now() < deadline) {
    const reader = openReader(path);
    for (const _ of reader.scan({})) {
      if (performance.now() >= deadline) break;
      await setImmediate();
    }
    expect(reader.foundDamage().any).toBe(false);
    reader.close();
  }
}

test('a killed writer loses nothing that could be queried, and numbers are not reused', async () => {
  const path = join(folder.path, 'recording.kreplay');
  let before: Contents | undefined;
  let removed = 0;
  let told = 0;
  /** Times of kills after which no writer has opened the file yet. */
  let untold: number[] = [];
  let next = newWriter(path, 0, LIMIT_BYTES);
  await reachLimit(await next, path);
  for (let round = 0; round < KILLS; round++) {
    const child = await next;
    next = newWriter(path, round + 1, LIMIT_BYTES);
    if (round > 0) child.go();
    await letRun(child, path, MOMENTS[round % MOMENTS.length]!);
    const killedMs = await child.kill();

    const seen = look(path);
    if (!seen) continue;
    const { contents, losses } = seen;
    expect(contents?.end ?? 0).toBeGreaterThanOrEqual(Math.max(child.safeEnd(), before?.end ?? 0));
    removed = losses.find(({ cause }) => cause === 'retention')?.count ?? 0;
    expect(removed).toBe(contents?.first ?? 0);
    expect(losses.filter(({ cause }) => cause === 'damaged')).toEqual([]);
    if (before && before.end > removed) expect(identityOf(path, before.end - 1)).toBe(before.lastEvent);
    if (child.safeEnd() >= 0) {
      expect(untold.filter((ms) => !isTold(seen, ms))).toEqual([]);
      told += untold.length;
      untold = [killedMs];
    }
    if (round % CHECK_EVERY === 0) expect(integrityOf(path)).toBe('ok');
    before = contents;
  }
  await (await next).kill();
  expect(removed).toBeGreaterThan(0);
  // Each kill but the last few is reported, whatever the writer did when it came.
  expect(told).toBeGreaterThan(KILLS / 4);
}, 3_600_000);

/** Lets the first writer go until its recording is so large that old events are removed. */
async function reachLimit(child: Child, path: string): Promise<void> {
  child.go();
  await child.firstFlush();
  const reader = openReader(path);
  while (!reader.losses().some(({ cause }) => cause === 'retention')) await sleep(50);
  reader.close();
}

test('a reader beside a writer sees complete flushes, each once', async () => {
  const path = join(folder.path, 'live.kreplay');
  const child = await newWriter(path, 0);
  child.go();
  await child.firstFlush();
  const reader = openReader(path);
  const until = performance.now() + times(400);
  let seen = 0;
  while (performance.now() < until || seen < 4) {
    const safeEnd = child.safeEnd();
    const blocks: NumberedBlock[] = [];
    for (const block of reader.scan({ order: seen % 2 === 0 ? 'asc' : 'desc' })) {
      blocks.push(block);
      // Lets the writer commit in between, and its reports arrive.
      await setImmediate();
    }
    const { first, end } = contentsOf(blocks)!;
    expect(first).toBe(0);
    expect(end).toBeGreaterThanOrEqual(safeEnd);
    seen++;
  }
  await child.kill();
  reader.close();
});

const LOG_HEADER_BYTES = 32;
const FRAME_HEADER_BYTES = 24;
const FRAMES_SEEN = 6000;

/** The writes to the log, in their order, as strace shows them. */
function parseWrites(trace: string): { bytes: number; at: number }[] {
  return [...trace.matchAll(/pwrite64\(.*, (\d+), (\d+)\) += \1$/gm)].map(([, bytes, at]) => ({
    bytes: Number(bytes),
    at: Number(at),
  }));
}

test('the header of a frame is not in the log before its page, where a kill would leave it over an older page', async () => {
  const path = join(folder.path, 'recording.kreplay');
  const trace = join(folder.path, 'trace');
  const strace = ['-f', '-qq', '-s', '0', '-e', 'trace=pwrite64', '-P', `${path}-wal`, '-o', trace];
  const args = [process.execPath, join(import.meta.dirname, 'fixture_writer.ts'), path, '1', String(LIMIT_BYTES)];
  const child = spawn('strace', [...strace, ...args], { stdio: ['pipe', 'ignore', 'inherit'] });
  const closed = once(child, 'close').then(() => children.delete(child));
  children.set(child, closed);
  child.stdin.write('go\n');
  const seen = () => (existsSync(trace) ? parseWrites(readFileSync(trace, 'utf8')) : []);
  while (seen().length < FRAMES_SEEN) await sleep(100);
  child.stdin.end('end\n');
  await closed;

  let end = 0;
  let starts = 0;
  const early: number[] = [];
  for (const { bytes, at } of seen()) {
    if (at < LOG_HEADER_BYTES) {
      starts++;
      end = LOG_HEADER_BYTES;
    } else if (bytes === FRAME_HEADER_BYTES && at >= end) early.push(at);
    else end = Math.max(end, at + bytes);
  }
  expect(starts).toBeGreaterThan(1);
  expect(early).toEqual([]);
}, 60_000);
