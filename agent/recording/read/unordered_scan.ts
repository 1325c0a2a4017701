/**
 * Scans segments one after the other, in no order: sums need none, and merging costs more than reading.
 *
 *   sealed segments   blocks of some of them, each in a read transaction of its own: they never change
 *   parts             all of them in one transaction, because a writer may merge them into segments between two
 */
import { type ColumnMaker, type NumberedBlock, newColumns, reusedColumns } from '../../../bpf/schema/block.ts';
import { gather, wholeBlock } from './assemble_block.ts';
import { matchingRows } from './match.ts';
import { leaveOut, readableBlock, type SegmentRun } from './readable_block.ts';
import type { ScanOptions, ScanSource } from './scan.ts';
import { planUnordered } from './scan_plan.ts';
import type { SegmentMeta } from './segment_index.ts';

/** The most segments that one step reads, and windows of segments that it passes: then the consumer can do other work. */
const SEGMENTS_A_STEP = 16;
const PASSED_A_STEP = 32;
/** A block of fewer rows gets those of the next segments too: a transaction and a block for each would cost more. */
const ROWS_ENOUGH = 1024;

interface UnorderedOptions extends Pick<ScanOptions, 'filter' | 'columns' | 'reusesMemory'> {
  /** Shorter events are not wanted any longer. */
  risingMinNs?: (() => bigint) | undefined;
}

/** Blocks may be empty: the consumer should then do its other work and continue. */
export function* scanUnordered(source: ScanSource, options: UnorderedOptions): Generator<NumberedBlock> {
  const { columns, reusesMemory, risingMinNs = () => 0n } = options;
  let { filter } = options;
  const make = reusesMemory ? reusedColumns() : newColumns;
  const plan = source.inTransaction(() =>
    planUnordered({ index: source.index, columnIds: source.columnIds(), filter }),
  );

  const leave = (error: unknown) => leaveOut(error, source.onDamaged);

  function matchingRun(meta: SegmentMeta): SegmentRun | undefined {
    const minNs = risingMinNs();
    if (minNs > filter.minDurationNs) filter = { ...filter, minDurationNs: minNs };
    if (meta.maxDurationNs < filter.minDurationNs) return undefined;
    try {
      const segment = source.open(meta);
      const rows = segment && matchingRows(segment, filter, plan.end);
      return segment && rows && rows.length > 0 ? { segment, rows } : undefined;
    } catch (error) {
      leave(error);
      return undefined;
    }
  }

  function blockOf(runs: readonly SegmentRun[], makeColumn: ColumnMaker): NumberedBlock {
    return readableBlock(runs, {
      gather: ([run, ...others]) =>
        run && others.length === 0 && run.rows.length === run.segment.rowCount
          ? wholeBlock(run.segment, columns, makeColumn)
          : gather(run ? [run, ...others] : [], columns, () => {}, makeColumn),
      onBlock: source.onBlock,
      leaveOut: leave,
    });
  }

  /** Takes segments from the front of a list, which has some, until their rows are enough for a block. */
  function nextBlock(segments: SegmentMeta[]): NumberedBlock {
    const runs: SegmentRun[] = [];
    for (let [opened, rows] = [0, 0]; rows < ROWS_ENOUGH && opened < SEGMENTS_A_STEP; opened++) {
      const meta = segments.shift();
      if (!meta) break;
      const run = matchingRun(meta);
      if (!run) continue;
      runs.push(run);
      rows += run.rows.length;
    }
    return blockOf(runs, make);
  }

  for (let passed = 0; ; ) {
    const segments = source.inTransaction(plan.nextSealed);
    if (!segments) break;
    if (segments.length === 0 && ++passed % PASSED_A_STEP === 0) yield gather([], columns, () => {});
    while (segments.length > 0) yield source.inTransaction(() => nextBlock(segments));
  }
  const parts = source.inTransaction(() =>
    plan.tail().flatMap((meta) => {
      const run = matchingRun(meta);
      return run ? [blockOf([run], newColumns)] : [];
    }),
  );
  yield* parts;
}
