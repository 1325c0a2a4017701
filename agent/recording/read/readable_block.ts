/** A block of rows that can be read, with the names that they refer to; segments that cannot be are left out. */
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import type { Run } from './assemble_block.ts';
import { type Segment, UnreadableSegment, withUnreadable } from './segment.ts';
import type { SegmentMeta } from './segment_index.ts';

export interface SegmentRun extends Run {
  segment: Segment;
}

export interface BlockSteps {
  gather(runs: readonly SegmentRun[]): NumberedBlock;
  /** Reads what the ids of the block stand for. */
  onBlock(block: NumberedBlock): void;
  /** Throws what is not about a single segment. */
  leaveOut(error: unknown): SegmentMeta;
}

export function readableBlock(runs: readonly SegmentRun[], steps: BlockSteps): NumberedBlock {
  try {
    const block = steps.gather(runs);
    steps.onBlock(block);
    return block;
  } catch (error) {
    const { firstNumber } = steps.leaveOut(error instanceof UnreadableSegment ? error : unreadable(runs, steps, error));
    return readableBlock(
      runs.filter(({ segment }) => segment.firstNumber !== firstNumber),
      steps,
    );
  }
}

/** The first segment whose names cannot be read, or what was wrong with all of them. */
function unreadable(runs: readonly SegmentRun[], { gather, onBlock }: BlockSteps, error: unknown): unknown {
  for (const run of runs) {
    try {
      withUnreadable(run.segment.meta, () => onBlock(gather([run])));
    } catch (found) {
      return found;
    }
  }
  return error;
}
