/** Makes a block of the rows that can be read, with the names that they refer to; unreadable segments are left out. */
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import type { Run } from './assemble_block.ts';
import { type Segment, UnreadableSegment, withUnreadable } from './segment.ts';
import type { SegmentMeta } from './segment_index.ts';

export interface SegmentRun extends Run {
  segment: Segment;
}

export interface BlockSteps {
  gather(runs: readonly SegmentRun[]): NumberedBlock;
  /** Reads what the ids of the block refer to. */
  onBlock(block: NumberedBlock): void;
  /** Returns the segment to leave out; rethrows an error that is not about a single segment. */
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

/** Reports the damaged segment that the error is about; rethrows an error that is not about a single segment. */
export function leaveOut(error: unknown, onDamaged: (meta: SegmentMeta) => void): SegmentMeta {
  if (!(error instanceof UnreadableSegment)) throw error;
  if (error.damage) onDamaged(error.meta);
  return error.meta;
}

/** Returns the error of the first segment whose names cannot be read; `error` itself when there is none. */
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
