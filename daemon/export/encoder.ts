/** The interfaces that an export format implements. It receives blocks of events and the data that accompanies them. */

import type { ClockStep, Loss } from '../../agent/recording/format/losses.ts';
import type { RecordingBlock, RecordingDictionary } from '../store/blocks/scanned_block.ts';

/** Data that is exported with the events. */
export interface Surroundings {
  readonly dictionary: RecordingDictionary;
  /** Start time of the recording. */
  readonly createdNs: bigint;
  /** Start of the first event. */
  readonly firstNs: bigint;
  /** Returns the losses. Must be called after all blocks are read, because damage is found only during reading. */
  losses(): readonly Loss[];
  readonly clockSteps: readonly ClockStep[];
  /** Returns the id of the exported transaction in the export; undefined if a time is exported. */
  exportedTransaction(): string | undefined;
}

export interface Encoder {
  head(): string | Buffer;
  /** Encodes the next block. Chunks are short, so that a slow reader delays other work only briefly. */
  encodeChunks(scanned: RecordingBlock): Iterable<string | Buffer>;
  tail(): string | Buffer;
}

export interface EventWriter {
  /** Blocks must be written in order. */
  write(scanned: RecordingBlock): Promise<void> | void;
  /** Completes the file. */
  finish(): Promise<void> | void;
  /** Closes the file, even if it is incomplete. */
  close(): void;
  bytes(): number;
}
