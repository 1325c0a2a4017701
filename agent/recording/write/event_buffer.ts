/**
 * The gatherer: the half of a writer that accepts events. Events gather in a fixed number of blocks until a commit has
 * written them.
 *
 *   append -> [open block] --full, old or large--> [closed blocks] --committed--> free again
 *                  \--a flush writes its new rows as a part
 *
 * Only one batch is under way at a time, and events continue to gather meanwhile. If a batch fails, the next batch
 * contains the same events and all newer events.
 */
import { type Block, createBlock } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { findEventDefinition } from '../../../bpf/schema/index.ts';
import type { LossCause } from '../../../bpf/schema/losses.ts';
import { nativeColumns } from '../../../bpf/schema/native_columns.ts';
import { createAbsentValues } from '../codec/absent.ts';
import { type BlockRange, SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import type { NextIds } from '../format/ids.ts';
import { addLossSums, type ClockStep, type Loss } from '../format/losses.ts';
import { findExtremes } from '../words64.ts';
import type { Batch, OpenedRecording, RowsToWrite, UnendedRows } from './batch.ts';
import { createDictionaries, type Dictionaries } from './dictionaries.ts';

/** Age at which parts are merged into a sealed segment, by the next flush. */
export const SEAL_AFTER_NS = 5_000_000_000n;

/** Minimum number of rows that a flush seals at once. As a part, the rows would be written twice. */
export const SEAL_ROWS_MIN = 512;

/**
 * Interval at which a quiet recording commits a batch without events. Queries treat a recording as complete up to the
 * last commit.
 */
const QUIET_BATCH_EVERY_NS = 1_000_000_000n;

export interface Gatherer
  extends Pick<Dictionaries, 'nameId' | 'fileId' | 'contextId' | 'oldestIds'>,
    Pick<PendingLosses, 'addLoss' | 'addClockStep'> {
  /**
   * Copies rows, beginning with `fromRow`, while there is room. Returns the first row without room, or the end of the
   * block.
   */
  append(block: Block, fromRow: number): number;
  /** Counts all rows, beginning with `fromRow`, as lost, because the file is not writable. */
  drop(block: Block, fromRow: number): void;
  /** Returns the number of rows for which there is room. */
  freeRows(): number;
  /** Sets the calls and requests in progress for the next batch. */
  setInProgress(unended: UnendedRows): void;
  /**
   * Returns everything that waits; undefined if nothing waits. The caller must then call `noteCommit` or `noteFailure`.
   */
  take(options?: { sealAll?: boolean }): Batch | undefined;
  noteCommit(): void;
  noteFailure(): void;
}

interface Taken {
  batch: Batch;
  closedCount: number;
}

export function createGatherer(opened: OpenedRecording, blocks: readonly Block[], nowNs: () => bigint): Gatherer {
  const dictionaries = createDictionaries(opened);
  const notes = createPendingLosses();
  const free: OpenRows[] = blocks.map((block, slot) => createOpenRows(slot, block));
  /** Closed blocks, which wait for a commit; the oldest first. */
  let closed: OpenRows[] = [];
  let open: OpenRows | undefined;
  let nextNumber = opened.nextNumber;
  let taken: Taken | undefined;
  let hasFailed = false;
  let unended: UnendedRows | undefined;
  let aliveNs = nowNs();

  /** Returns the block for the next row; undefined if all blocks wait for a commit. */
  function ensureOpenRows(): OpenRows | undefined {
    if (!open) {
      // The most recently used block is taken first, so that the memory of rarely needed blocks may stay untouched.
      open = free.pop();
      if (open) reuse(open, nextNumber);
    }
    return open;
  }

  function closeOpen(): void {
    if (!open) return;
    closed.push(open);
    open = undefined;
  }

  function mustSeal({ block, writtenRows, openedNs }: OpenRows): boolean {
    if (writtenRows === 0) return block.rowCount >= SEAL_ROWS_MIN;
    const age = nowNs() - openedNs;
    // The age is negative if the wall clock was set back.
    return age >= SEAL_AFTER_NS || age < 0n;
  }

  return {
    oldestIds: dictionaries.oldestIds,
    nameId: dictionaries.nameId,
    fileId: dictionaries.fileId,
    contextId: dictionaries.contextId,
    addLoss: notes.addLoss,
    addClockStep: notes.addClockStep,
    append(block, fromRow) {
      let typeFrom = computeBlockRange(block, 0, fromRow, new Uint32Array(block.typeCounts.length)).typeTo;
      let from = fromRow;
      while (from < block.rowCount) {
        const rows = ensureOpenRows();
        if (!rows) break;
        if (rows.block.rowCount === 0) {
          rows.openedNs = nowNs();
          rows.idsFrom = dictionaries.nextIds();
        }
        const to = Math.min(block.rowCount, from + SEGMENT_ROWS_MAX - rows.block.rowCount);
        const range = computeBlockRange(block, from, to, typeFrom);
        copyRows(rows, block, range);
        nextNumber += to - from;
        typeFrom = range.typeTo;
        from = to;
        if (rows.block.rowCount === SEGMENT_ROWS_MAX) closeOpen();
      }
      return from;
    },
    drop(block, fromRow) {
      const { typeTo: typeFrom } = computeBlockRange(block, 0, fromRow, new Uint32Array(block.typeCounts.length));
      const range = computeBlockRange(block, fromRow, block.rowCount, typeFrom);
      const time = findExtremes(block.columns.get('timestamp_ns')! as BigUint64Array, fromRow, block.rowCount);
      range.typeTo.forEach((end, type) => {
        const count = end - typeFrom[type]!;
        const eventType = findEventDefinition(type)?.name ?? null;
        if (count > 0) notes.addLoss({ cause: 'store_failed', eventType, count, fromNs: time.min, toNs: time.max });
      });
    },
    freeRows: () => free.length * SEGMENT_ROWS_MAX + (open ? SEGMENT_ROWS_MAX - open.block.rowCount : 0),
    setInProgress(what) {
      unended = what;
    },
    take({ sealAll = false } = {}) {
      // While the file is not writable, room is scarce, so only full blocks are closed.
      const mayClose = sealAll || (!hasFailed && open !== undefined && mustSeal(open));
      if (open && open.block.rowCount > 0 && mayClose) closeOpen();
      const idsEnd = dictionaries.nextIds();
      const rows = closed.map((one) => toWrite(one, true, idsEnd));
      if (open && open.block.rowCount > open.writtenRows) rows.push(toWrite(open, false, idsEnd));
      const now = nowNs();
      const idle = rows.length === 0 && !notes.hasPending() && !unended;
      if (idle && now - aliveNs < QUIET_BATCH_EVERY_NS && now >= aliveNs) return undefined;
      const batch = { rows, ...dictionaries.take(), ...notes.take(), unended, nowNs: now };
      taken = { batch, closedCount: closed.length };
      return batch;
    },
    noteCommit() {
      if (!taken) return;
      const { batch, closedCount } = taken;
      taken = undefined;
      hasFailed = false;
      aliveNs = batch.nowNs;
      if (unended === batch.unended) unended = undefined;
      dictionaries.noteCommit();
      notes.noteCommit();
      free.push(...closed.slice(0, closedCount));
      closed = closed.slice(closedCount);
      const part = batch.rows.find(({ seal }) => !seal);
      const written = part && [open, ...closed].find((rows) => rows?.slot === part.slot);
      if (!part || !written) return;
      written.writtenRows = part.unwritten.to;
      written.writtenTypeRows.set(part.unwritten.typeTo);
    },
    noteFailure() {
      taken = undefined;
      hasFailed = true;
      notes.noteFailure();
    },
  };
}

function toWrite(rows: OpenRows, seal: boolean, idsEnd: NextIds): RowsToWrite {
  const { slot, firstNumber, block, idsFrom } = rows;
  const unwritten = {
    from: rows.writtenRows,
    to: block.rowCount,
    typeFrom: rows.writtenTypeRows.slice(),
    typeTo: block.typeCounts.slice(),
  };
  return { slot, firstNumber, idsFrom, idsEnd, unwritten, seal };
}

/*
 * A block with the rows that are not sealed yet, in arrival order. The rows [0, writtenRows) are also in parts of
 * the file.
 */

export interface OpenRows {
  /** Index of the block among the writer's blocks. */
  readonly slot: number;
  readonly block: Block;
  firstNumber: number;
  /** Time of the first append, and the next dictionary ids at that time. */
  openedNs: bigint;
  idsFrom: NextIds;
  writtenRows: number;
  readonly writtenTypeRows: Uint32Array;
}

export function createOpenRows(slot: number, block: Block = createBlock(SEGMENT_ROWS_MAX)): OpenRows {
  return {
    slot,
    block,
    firstNumber: 0,
    openedNs: 0n,
    idsFrom: { name: 0, file: 0, context: 0 },
    writtenRows: 0,
    writtenTypeRows: new Uint32Array(block.typeCounts.length),
  };
}

/** Discards the rows but keeps the memory. */
function reuse(rows: OpenRows, firstNumber: number): void {
  rows.block.rowCount = 0;
  rows.block.typeCounts.fill(0);
  rows.firstNumber = firstNumber;
  rows.writtenRows = 0;
  rows.writtenTypeRows.fill(0);
}

/** Appends rows of another block; the caller ensures that they fit. Columns that `source` lacks get absent values. */
export function copyRows(rows: OpenRows, source: Block, range: BlockRange): void {
  const { block } = rows;
  for (const column of COLUMNS) {
    const { name, eventType } = column;
    const from = eventType === 0 ? range.from : range.typeFrom[eventType]!;
    const to = eventType === 0 ? range.to : range.typeTo[eventType]!;
    if (from === to) continue;
    const target = block.columns.get(name)!;
    const at = eventType === 0 ? block.rowCount : block.typeCounts[eventType]!;
    const values = source.columns.get(name);
    if (values) nativeColumns.copyValues(values, from, to, target, at);
    else nativeColumns.copyValues(createAbsentValues(column, to - from), 0, to - from, target, at);
  }
  for (let type = 0; type < block.typeCounts.length; type++) {
    block.typeCounts[type]! += range.typeTo[type]! - range.typeFrom[type]!;
  }
  block.rowCount += range.to - range.from;
}

/**
 * Returns the range for rows [from, to) of a block. `typeFrom` has the start of the range in the columns of each event
 * type.
 */
function computeBlockRange(source: Block, from: number, to: number, typeFrom: Uint32Array): BlockRange {
  const eventType = source.columns.get('event_type')! as Uint8Array;
  const typeTo = typeFrom.slice();
  for (let row = from; row < to; row++) typeTo[eventType[row]!]!++;
  return { from, to, typeFrom, typeTo };
}

/* Losses and clock steps that wait for the next flush. */

/**
 * Maximum number of losses that wait. A further loss is merged into a waiting loss with the same cause, event type and
 * service, if there is one.
 */
const PENDING_LOSSES_MAX = 1024;

/** Maximum number of parts that wait. A loss whose parts have no room is not divided: it may concern any transaction. */
const PENDING_PARTS_MAX = 8192;

/** Maximum number of clock steps that wait. If there are more, the oldest are dropped. */
const PENDING_CLOCK_STEPS_MAX = 1024;

/**
 * Causes whose lost events may be impossible to count. A loss with such a cause is recorded even if its count is 0,
 * because its period matters.
 */
const UNCOUNTED: readonly LossCause[] = ['recording_removed', 'recording_damaged'];

interface PendingLosses {
  /** Adds a loss that is no part, and its parts; it is divided if there are `parts`, even if there are none. */
  addLoss(loss: Loss, parts?: readonly Loss[]): void;
  addClockStep(step: ClockStep): void;
  hasPending(): boolean;
  /**
   * Returns the losses and clock steps that are not committed. The next `noteCommit` refers to them. Later calls of
   * `addLoss` do not change them until then.
   */
  take(): Pick<Batch, 'losses' | 'clockSteps'>;
  noteCommit(): void;
  /** Makes the taken losses and clock steps wait again, because they were not committed. */
  noteFailure(): void;
}

/** A loss that waits, with its parts by transaction if it is divided. */
interface PendingLoss {
  loss: Loss;
  parts: Map<string, Loss> | undefined;
}

function createPendingLosses(): PendingLosses {
  let losses: PendingLoss[] = [];
  let partCount = 0;
  /** The last waiting loss of each cause, event type and service, if it was not taken. */
  const lastOf = new Map<string, PendingLoss>();
  let steps: ClockStep[] = [];
  let takenLosses = 0;
  let takenSteps = 0;

  function countParts(some: readonly PendingLoss[]): number {
    return some.reduce((sum, { parts }) => sum + (parts?.size ?? 0), 0);
  }

  return {
    addLoss(loss, parts) {
      if (loss.count === 0 && !UNCOUNTED.includes(loss.cause)) return;
      const isDivided = parts !== undefined && partCount + parts.length <= PENDING_PARTS_MAX;
      const key = buildLossKey(loss, isDivided);
      const same = lastOf.get(key);
      // Losses of consecutively dropped blocks are merged into one loss, and so are the losses of a service.
      const continues = loss.cause === 'store_failed' || loss.service !== undefined;
      const isNew = !same || (losses.length < PENDING_LOSSES_MAX && !continues);
      const pending = isNew ? { loss: { ...loss }, parts: isDivided ? new Map<string, Loss>() : undefined } : same;
      if (isNew) {
        losses.push(pending);
        lastOf.set(key, pending);
      } else {
        widen(pending.loss, loss);
      }
      for (const part of isDivided ? parts : []) {
        const known = pending.parts!.get(part.transactionId!);
        if (known) widen(known, part);
        else pending.parts!.set(part.transactionId!, { ...part });
        if (!known) partCount++;
      }
    },
    addClockStep(step) {
      steps.push({ ...step });
      if (steps.length - takenSteps > PENDING_CLOCK_STEPS_MAX) steps.splice(takenSteps, 1);
    },
    hasPending: () => losses.length > 0 || steps.length > 0,
    take() {
      takenLosses = losses.length;
      lastOf.clear();
      takenSteps = steps.length;
      return { losses: losses.flatMap(listStored), clockSteps: steps.slice() };
    },
    noteCommit() {
      losses = losses.slice(takenLosses);
      partCount = countParts(losses);
      steps = steps.slice(takenSteps);
      takenLosses = takenSteps = 0;
    },
    noteFailure() {
      takenLosses = takenSteps = 0;
      lastOf.clear();
      for (const one of losses) lastOf.set(buildLossKey(one.loss, one.parts !== undefined), one);
    },
  };
}

function buildLossKey({ cause, eventType, service, sums }: Loss, isDivided: boolean): string {
  return JSON.stringify([cause, eventType, service, sums !== undefined, isDivided]);
}

/** Returns the loss and its parts in the form in which they are stored. */
function listStored({ loss, parts }: PendingLoss): Loss[] {
  return parts ? [{ ...loss, isDivided: true }, ...parts.values()] : [loss];
}

function widen(loss: Loss, by: Loss): void {
  loss.count += by.count;
  loss.sums = addLossSums(loss.sums, by.sums);
  if (by.fromNs < loss.fromNs) loss.fromNs = by.fromNs;
  if (by.toNs > loss.toNs) loss.toNs = by.toNs;
}
