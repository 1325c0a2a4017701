/**
 * Scans segments one after the other, in no order: sums need none, and merging costs more than reading.
 *
 *   sealed segments   a block each, in a read transaction of its own: they never change
 *   parts             all of them in one transaction, because a writer may merge them into segments between two
 */
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { type ColumnMaker, gather, newColumns, reusedColumns, wholeBlock } from './assemble_block.ts';
import { matchingRows } from './match.ts';
import { leaveOut, readableBlock } from './readable_block.ts';
import type { ScanOptions, ScanSource } from './scan.ts';
import { planUnordered } from './scan_plan.ts';
import type { SegmentMeta } from './segment_index.ts';

/**
 * The most segments without a matching row that are read, or windows of segments that are passed, before the consumer
 * can do other work.
 */
const EMPTY_MAX = 32;

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

  function blockOf(meta: SegmentMeta, makeColumn: ColumnMaker): NumberedBlock | undefined {
    const leave = (error: unknown) => leaveOut(error, source.onDamaged);
    const minNs = risingMinNs();
    if (minNs > filter.minDurationNs) filter = { ...filter, minDurationNs: minNs };
    if (meta.maxDurationNs < filter.minDurationNs) return undefined;
    try {
      const segment = source.open(meta);
      const rows = segment && matchingRows(segment, filter, plan.end);
      if (!segment || !rows || rows.length === 0) return undefined;
      const block = readableBlock([{ segment, rows }], {
        gather: (runs) =>
          runs.length > 0 && rows.length === segment.rowCount
            ? wholeBlock(segment, columns, makeColumn)
            : gather(runs, columns, () => {}, makeColumn),
        onBlock: source.onBlock,
        leaveOut: leave,
      });
      return block.rowCount > 0 ? block : undefined;
    } catch (error) {
      leave(error);
      return undefined;
    }
  }

  let empty = 0;
  for (;;) {
    const segments = source.inTransaction(plan.nextSealed);
    if (!segments) break;
    if (segments.length === 0 && ++empty >= EMPTY_MAX) {
      empty = 0;
      yield gather([], columns, () => {});
    }
    for (const meta of segments) {
      const block = source.inTransaction(() => blockOf(meta, make));
      if (!block && ++empty < EMPTY_MAX) continue;
      empty = 0;
      yield block ?? gather([], columns, () => {});
    }
  }
  const parts = source.inTransaction(() => plan.tail().map((meta) => blockOf(meta, newColumns)));
  for (const block of parts) if (block) yield block;
}
