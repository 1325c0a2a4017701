/**
 * Writes calls and requests in progress into the recording: the writer knows that they have begun but not ended. When
 * the writer has ended, the next writer records each of them as a loss at its start time. They stay listed with their
 * owners until retention removes that time.
 */
import type Database from 'better-sqlite3';
import { type Block, type ColumnArray, createBlock, getColumnLength, typeRows } from '../../../bpf/schema/block.ts';
import { blockIo } from '../../../bpf/schema/block_io.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { findEventDefinition } from '../../../bpf/schema/index.ts';
import type { LossCause } from '../../../bpf/schema/losses.ts';
import { openSegmentData } from '../codec/decode_segment.ts';
import { createSegmentEncoder, HEAD_BYTES } from '../codec/encode_segment.ts';
import { isCorrupt } from '../format/errors.ts';
import {
  ALIVE,
  encodeUnlisted,
  IN_PROGRESS,
  IN_PROGRESS_UNLISTED,
  joinUnlisted,
  parseUnlisted,
  UNFINISHED,
  UNKNOWN_UNLISTED,
  type Unlisted,
} from '../format/in_progress.ts';
import type { UnendedRows } from './batch.ts';
import type { ColumnPlaces } from './create.ts';
import { createLossWriter } from './loss_tables.ts';

/** Maximum size of a value of `meta`. */
const BYTES_MAX = 65_536;
/**
 * Limits on unfinished calls and requests. When a writer has ended, at most `ENDED_MAX` of them become separate losses;
 * the others together become one loss. Only the last `UNFINISHED_MAX` stay listed. So thousands of calls in progress or
 * frequent restarts do not fill the recording.
 */
const ENDED_MAX = 64;
const UNFINISHED_MAX = 256;
const CAUSE: LossCause = 'in_progress';

const SET = 'INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value';
const GET = 'SELECT value FROM meta WHERE key = ?';
const DELETE = 'DELETE FROM meta WHERE key = ?';

/** Returns a function that writes the calls and requests in progress. A commit calls it inside its transaction. */
export function createInProgressWriter(
  database: Database.Database,
  { ids }: ColumnPlaces,
): (unended: UnendedRows) => void {
  const encode = createFittingEncoder(ids);
  const set = database.prepare(SET);
  const remove = database.prepare(DELETE);
  return ({ block, unlisted }) => {
    const { bytes, rowCount } = encode(block, (count) => pickRows(block, range(0, count)));
    if (rowCount > 0) set.run(IN_PROGRESS, bytes);
    else remove.run(IN_PROGRESS);
    const others = addUnlistedRows(unlisted, block, rowCount);
    if (others.count > 0) set.run(IN_PROGRESS_UNLISTED, encodeUnlisted(others));
    else remove.run(IN_PROGRESS_UNLISTED);
  };
}

/** Returns `unlisted` with the rows of the block added, beginning with row `from`. */
function addUnlistedRows(unlisted: Unlisted, block: Block, from: number): Unlisted {
  const { columns, rowCount } = block;
  const starts = columns.get('timestamp_ns') as BigUint64Array;
  const contexts = columns.get('context') as Uint32Array;
  const types = columns.get('event_type') as Uint8Array;
  let all = unlisted;
  for (let row = from; row < rowCount; row++) {
    const isLabelled = contexts[row] !== 0 || types[row] === blockIo.id;
    all = joinUnlisted(all, { count: 1, labelled: isLabelled ? 1 : 0, sinceNs: starts[row]! });
  }
  return all;
}

/**
 * Records losses for the calls and requests that were in progress when the last writer ended, in a transaction of its
 * own.
 */
export function endInProgress(database: Database.Database, { ids }: ColumnPlaces): void {
  const get = database.prepare<[string], unknown>(GET).pluck().safeIntegers();
  const readInProgressBlock = (key: string) => {
    const bytes = get.get(key);
    return bytes === undefined ? createBlock(0) : decode(bytes, ids);
  };
  const listed = readInProgressBlock(IN_PROGRESS);
  const all = listed ?? createBlock(0);
  const counted = parseUnlisted(get.get(IN_PROGRESS_UNLISTED)) ?? UNKNOWN_UNLISTED;
  // An unreadable list counts as one unknown call.
  const unlisted = listed ? counted : joinUnlisted(counted, UNKNOWN_UNLISTED);
  if (all.rowCount === 0 && unlisted.count === 0) return;
  const [ended, rest] = divideRows(all);
  const others = addUnlistedRows(unlisted, rest, 0);
  const aliveNs = BigInt((get.get(ALIVE) as number | bigint | undefined) ?? 0);
  database.transaction(() => {
    const { addLoss } = createLossWriter(database);
    const starts = ended.columns.get('timestamp_ns') as BigUint64Array;
    const types = ended.columns.get('event_type') as Uint8Array;
    for (let row = 0; row < ended.rowCount; row++) {
      const startNs = starts[row]!;
      const eventType = findEventDefinition(types[row]!)?.name ?? null;
      addLoss({ cause: CAUSE, eventType, count: 1, fromNs: startNs, toNs: startNs });
    }
    const { count, sinceNs } = others;
    const toNs = aliveNs > sinceNs ? aliveNs : sinceNs;
    if (count > 0) addLoss({ cause: CAUSE, eventType: null, count, fromNs: sinceNs, toNs });
    const known = joinBlocks(readInProgressBlock(UNFINISHED) ?? createBlock(0), ended);
    const pickNewest = (count: number) => pickRows(known, range(known.rowCount - count, known.rowCount));
    const kept = pickNewest(Math.min(known.rowCount, UNFINISHED_MAX));
    database.prepare(SET).run(UNFINISHED, createFittingEncoder(ids)(kept, pickNewest).bytes);
    for (const key of [IN_PROGRESS, IN_PROGRESS_UNLISTED]) database.prepare(DELETE).run(key);
  })();
}

/**
 * Takes the most important rows and the rows that began first. The remaining rows began late, so the period of their
 * common loss is short.
 */
function divideRows(block: Block): [taken: Block, left: Block] {
  const starts = block.columns.get('timestamp_ns') as BigUint64Array;
  const rows = range(0, block.rowCount);
  const byStart = rows.toSorted((a, b) => (starts[a]! < starts[b]! ? -1 : starts[a]! > starts[b]! ? 1 : a - b));
  const taken = new Set([...byStart.slice(0, ENDED_MAX / 2), ...rows].slice(0, ENDED_MAX));
  for (const row of rows) if (taken.size < ENDED_MAX) taken.add(row);
  const selectRows = (isTaken: boolean) => rows.filter((row) => taken.has(row) === isTaken);
  return [pickRows(block, selectRows(true)), pickRows(block, selectRows(false))];
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

/** Returns a function that encodes a block. If the bytes exceed `BYTES_MAX`, it encodes fewer of the rows. */
function createFittingEncoder(ids: ReadonlyMap<string, number>) {
  const encode = createSegmentEncoder(ids);
  return (block: Block, some: (rowCount: number) => Block): { bytes: Buffer; rowCount: number } => {
    for (let fitting = block; ; fitting = some((fitting.rowCount * 3) >> 2)) {
      const { rowCount, typeCounts } = fitting;
      const bytes = encode(fitting, {
        from: 0,
        to: rowCount,
        typeFrom: typeCounts.slice().fill(0),
        typeTo: typeCounts,
      });
      if (bytes.length <= BYTES_MAX) return { bytes: Buffer.from(bytes), rowCount };
    }
  };
}

/** Decodes a list; returns undefined if it is unreadable. */
function decode(bytes: unknown, ids: ReadonlyMap<string, number>): Block | undefined {
  try {
    if (!Buffer.isBuffer(bytes) || bytes.length < HEAD_BYTES) return undefined;
    const data = openSegmentData(bytes, ids);
    const block = { ...createBlock(0), rowCount: data.rowCount };
    for (const column of COLUMNS) block.columns.set(column.name, data.readColumn(column));
    for (const type of block.columns.get('event_type')!) block.typeCounts[Number(type)]!++;
    const areAll = block.typeCounts.every((count, type) => type === 0 || count === data.typeRowCount(type));
    return areAll ? block : undefined;
  } catch (error) {
    if (!isCorrupt(error)) throw error;
    return undefined;
  }
}

/** Copies rows of a block to a new block. `rows` must be in ascending order. */
function pickRows(block: Block, rows: readonly number[]): Block {
  const ownRows = typeRows(block);
  const types = block.columns.get('event_type')!;
  const picked: Block = { ...createBlock(0), rowCount: rows.length };
  for (const row of rows) picked.typeCounts[Number(types[row])]!++;
  for (const { name, eventType } of COLUMNS) {
    const places = eventType === 0 ? rows : rows.filter((row) => types[row] === eventType).map((row) => ownRows[row]!);
    const values = block.columns.get(name)!;
    const some = values.slice(0, places.length);
    for (const [i, place] of places.entries()) some[i] = values[place]!;
    picked.columns.set(name, some);
  }
  return picked;
}

function joinBlocks(first: Block, second: Block): Block {
  const both: Block = { ...createBlock(0), rowCount: first.rowCount + second.rowCount };
  both.typeCounts.forEach((_, type) => {
    both.typeCounts[type] = first.typeCounts[type]! + second.typeCounts[type]!;
  });
  for (const column of COLUMNS) {
    const [a, b] = [first, second].map((block) =>
      block.columns.get(column.name)!.subarray(0, getColumnLength(block, column)),
    ) as [ColumnArray, ColumnArray];
    const values = a.constructor as new (length: number) => ColumnArray;
    const all = new values(a.length + b.length);
    all.set(a as never, 0);
    all.set(b as never, a.length);
    both.columns.set(column.name, all);
  }
  return both;
}
