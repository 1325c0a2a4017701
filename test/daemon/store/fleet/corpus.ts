/** Recordings whose events have what is hard to keep: equal times, extremes, nulls, hostile names, many owners. */
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { appendRows, newFolder, newWriter, type Row, recordingPath, START, setInProgress } from '../../recorded.ts';

export const HOSTILE = [
  "') OR 1=1 --",
  "'; DROP TABLE event; --",
  "\\'",
  '*',
  '__proto__',
  '\n\t\0x',
  'ü€𝄞',
  'a,b',
  '%',
];
export const SERVICES = ['shop', 'db', ...HOSTILE];
export const NODES = ['node-a', 'node-b', "node-'c"];
export const FILES = [
  '/srv/db/1',
  '/srv/db/wal/1',
  '/srv/db',
  '/srv/dbx/1',
  '/x,y',
  '/a*',
  '*',
  '%',
  'socket:[1]',
  '/ü/\\',
];
export const TRANSACTIONS = [
  ...["order-') OR 1=1 --", 'order-\\', 'x'.repeat(1024), '*', '\0', 'ü'],
  ...Array.from({ length: 40 }, (_, i) => `order-${i}`),
];
export const TRACES = TRANSACTIONS.map((_, i) => `${i + 1}`.padStart(32, '0a'));
export const RESULTS = [
  64n,
  0n,
  -5n,
  -28n,
  -4n,
  -4000n,
  -(2n ** 32n) - 5n,
  2n ** 53n + 1n,
  2n ** 63n - 1n,
  -(2n ** 63n),
];
export const DURATIONS = [0n, 1n, 1000n, 2n ** 32n, 2n ** 53n + 1n, 2n ** 63n - 1n];
const SIZES = [0n, 4096n, 2n ** 53n + 1n, 2n ** 63n - 1n, 2n ** 64n - 2n];

export const SECOND = 1_000_000_000n;
/** Events in a segment. */
const SEGMENT_ROWS = 180;
const pick = <T>(values: readonly T[], i: number): T => values[Math.floor(i) % values.length]!;

const isEarly = (i: number) => i % 389 === 0;

/** Groups of events at the same time, some minutes apart, and one of them hours before. */
function timeOf(i: number): bigint {
  const minute = BigInt(Math.floor(i / 97));
  return START - (isEarly(i) ? 20_000n * SECOND : 0n) + minute * 40n * SECOND + BigInt(i % 11);
}

function ownerOf(i: number) {
  // No transaction is as long as it would be with an event of hours before.
  if (isEarly(i)) return {};
  const has = i % 5 < 3;
  const which = Math.floor(i / 7);
  const span = i % 2 === 0 ? { span: `${which % 9}`.padStart(16, '1') } : {};
  return {
    ...(has && { transaction: pick(TRANSACTIONS, which) }),
    ...((has ? i % 3 > 0 : i % 5 === 3) && { trace: pick(TRACES, which), ...span }),
  };
}

/** Each field goes through its values at a pace of its own, so that combinations differ. */
function row(i: number): Row {
  const common = {
    ...{ at: timeOf(i), duration: pick(DURATIONS, i / 3), service: i % 13 === 0 ? '' : pick(SERVICES, i / 2) },
    ...{ comm: pick(HOSTILE, i / 4), pid: 100 + (i % 4), tid: i % 17, cpu: i % 3, result: pick(RESULTS, i / 7) },
    ...ownerOf(i),
  };
  const file = pick([...FILES, undefined], i / 2);
  const named = { ...common, ...(file !== undefined && { file }), ...(i % 9 === 0 && { fileKind: 'socket' as const }) };
  if (i % 3 === 0) {
    const requested = i % 2 === 0 ? { requested: pick(SIZES, i / 5) } : {};
    return { ...named, ...requested, syscall: i % 2 === 0 ? 'write' : 'pwrite64', fd: (i % 7) - 3 };
  }
  if (i % 3 === 1) return { ...named, type: 'sys_sync', syscall: i % 2 === 0 ? 'fsync' : 'sync', fd: -1 };
  const origins = Array.from({ length: i % 5 }, (_, slot) => ({
    ...{ service: slot === 2 ? '' : pick(SERVICES, i / 3 + slot), bytes: pick(SIZES, i + slot) },
    ...(!isEarly(i) && ownerOf(i * 3 + slot * 7)),
  }));
  const operation = pick(['read', 'write', 'flush', 'discard', 'other'] as const, i / 3);
  const sizes = {
    sector: pick(SIZES, i / 2),
    bytes: pick(SIZES, i / 6),
    ...(i % 4 > 0 && { queue: pick(DURATIONS, i) }),
  };
  const source = i % 7 === 0 && 'transaction' in common ? { source: 'origin' as const } : {};
  return {
    ...common,
    ...sizes,
    ...source,
    type: 'block_io',
    device: pick(['', ...HOSTILE], i / 6),
    operation,
    origins,
    ...(i % 5 > 0 && { queuedBy: { service: pick(SERVICES, i / 4), ...(!isEarly(i) && ownerOf(i * 5)) } }),
  };
}

const LOSSES = [
  { cause: 'ring_full', eventType: 'sys_write', count: 7, fromNs: START, toNs: START + 9n },
  { cause: 'damaged', eventType: null, count: 0, fromNs: START - 5n * SECOND, toNs: START + 60n * SECOND },
] as const;

/** A loss with a part for each of two transactions. */
const DIVIDED = {
  ...({ cause: 'shed', service: 'shop', eventType: 'sys_write', count: 9 } as const),
  ...{ fromNs: START + 9n, toNs: START + 2n * SECOND, sums: { bytes: 2n ** 63n + 1n, durationNs: 12n, longestNs: 7n } },
} as const;
const PARTS = ['left-out', 'of'].map((transactionId, i) => ({ ...DIVIDED, transactionId, count: i + 1 }));

export function corpusRows(count: number): Row[] {
  return Array.from({ length: count }, (_, i) => row(i));
}

/** Returns the paths of several recordings of some nodes, in the order of their ids. Each has several segments. */
export function recordedCorpus(count = 2400): string[] {
  const rows = corpusRows(count);
  const paths = NODES.map((node, i) => {
    const folder = newFolder();
    const own = rows.filter((_, at) => (at % 7) % NODES.length === i);
    for (let from = 0; from < own.length; from += SEGMENT_ROWS) {
      // A writer seals what it has when it closes.
      const writer = newWriter(folder, node, START - 30_000n * SECOND);
      appendRows(writer, own.slice(from, from + SEGMENT_ROWS), 50);
      if (from === 0) for (const loss of LOSSES) writer.recordLoss({ ...loss, count: loss.count + i });
      if (from === 0) writer.recordLoss(DIVIDED, PARTS);
      if (from + SEGMENT_ROWS >= own.length)
        setInProgress(writer, own.slice(0, 150).sort(byStart), { count: i, labelled: 0, sinceNs: START });
      writer.close();
    }
    return recordingPath(folder);
  });
  return paths.sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
}

function byStart(a: Row, b: Row): number {
  return a.at < b.at ? -1 : a.at > b.at ? 1 : 0;
}

function idOf(path: string): string {
  const reader = openReader(path);
  reader.close();
  return reader.recordingId;
}
