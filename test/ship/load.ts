/** Recordings of many events, whole or growing while something else happens. */
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { openWriter, type RecordingWriter } from '../../agent/recording/write/writer.ts';
import { appendRows, NODE, newFolder, newWriter, type Row, recordingPath, START } from '../daemon/recorded.ts';

const KINDS = ['sys_write', 'sys_sync', 'block_io'] as const;

/** Events of several services, of transactions that reach over many segments, and of some that no group has in part. */
export function loadRow(i: number, at = START + BigInt(i) * 1_000_000n): Row {
  const common = {
    at,
    duration: BigInt((i * 7919) % 1_000_003),
    service: `service-${i % 7}`,
    comm: `thread-${i % 5}`,
    pid: 1000 + (i % 50),
    result: BigInt((i % 13) - 1),
    ...(i % 2 === 0 && {
      transaction: i % 4 === 0 ? `order-${i % 41}` : `short-${i >> 6}`,
      trace: ((i % 41) + 1).toString(16).padStart(32, 'c'),
    }),
  };
  const type = KINDS[i % KINDS.length]!;
  if (type === 'sys_write') return { ...common, requested: BigInt(i), file: `/data/${i % 101}` };
  if (type === 'sys_sync') return { ...common, type };
  const origins = [{ service: `service-${i % 3}`, transaction: `order-${(i + 1) % 41}`, bytes: BigInt(i) }];
  return { ...common, type, sector: BigInt(i), origins };
}

export const loadRows = (count: number, first = 0): Row[] =>
  Array.from({ length: count }, (_, i) => loadRow(first + i));

/** Records each so many rows as a segment: a writer seals what it has when it ends. Returns the folder. */
export function recordedInSegments(rows: readonly Row[], size: number, folder = newFolder()): string {
  for (let first = 0; first < rows.length; first += size) {
    const writer = newWriter(folder);
    appendRows(writer, rows.slice(first, first + size), size);
    writer.close();
  }
  return folder;
}

/** Events that do not compress, so that a small limit is soon reached. */
export function noisyRows(count: number, first: number, random: () => number): Row[] {
  return Array.from({ length: count }, (_, i) => {
    const duration = BigInt(Math.floor(random() * 2 ** 32)) * 1_000_003n;
    return {
      ...loadRow(first + i),
      duration,
      result: BigInt(Math.floor(random() * 2 ** 32)) * 1_000_033n,
      pid: Math.floor(random() * 2 ** 22),
      tid: Math.floor(random() * 2 ** 22),
    };
  });
}

/** A writer with the time of day, which seals segments after some seconds as an agent does. */
export function liveWriter(folder: string, retainBytes = 1 << 30, bootId = 'boot'): RecordingWriter {
  const origin = { node: NODE, bootId, machineId: 'machine' };
  const nowNs = () => BigInt(Date.now()) * 1_000_000n;
  return openWriter({ path: recordingPath(folder), ...origin, nowNs, retention: { bytes: retainBytes } });
}

export interface Load {
  /** All rows so far. */
  readonly rows: readonly Row[];
  /** Ends the recording, so that all of it is sealed. */
  stop(): Promise<void>;
}

/** Records some rows ten times a second. */
export function startLoad(folder: string, rowsAtOnce: number): Load {
  const writer = liveWriter(folder);
  const rows: Row[] = [];
  let isOver = false;
  async function record(): Promise<void> {
    while (!isOver) {
      const more = loadRows(rowsAtOnce, rows.length);
      appendRows(writer, more);
      rows.push(...more);
      await sleep(100);
    }
    writer.close();
  }
  const recording = record();
  return {
    rows,
    async stop() {
      isOver = true;
      await recording;
    },
  };
}

/** Repeatable random numbers of [0, 1). */
export function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The number of the oldest event that retention has left. */
export function firstNumber(folder: string): number {
  const database = new Database(recordingPath(folder), { readonly: true });
  try {
    return database.prepare<[], number>('SELECT min(first_number) FROM segment').pluck().get()!;
  } finally {
    database.close();
  }
}
