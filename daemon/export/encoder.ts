/** The interfaces of an export format, which receives blocks of events and the data that accompanies them. */

import type { ClockStep, Loss } from '../../agent/recording/format/losses.ts';
import type { RecordingBlock, RecordingDictionary } from '../store/blocks/scanned_block.ts';

/** Data that is exported with the events. */
export interface Surroundings {
  readonly dictionary: RecordingDictionary;
  /** Start time of the recording. */
  readonly createdNs: bigint;
  /** Start of the first event. */
  readonly firstNs: bigint;
  /** Must be called at the end, because damage is found only when the data is read. */
  losses(): readonly Loss[];
  readonly clockSteps: readonly ClockStep[];
}

/** Produces the chunks of a stream. */
export interface Encoder {
  head(): string | Buffer;
  /**
   * Encodes blocks, which must come in order, as short chunks, so that a slow reader delays other work only briefly.
   */
  encodeChunks(scanned: RecordingBlock): Iterable<string | Buffer>;
  tail(): string | Buffer;
}

export interface EventWriter {
  /** Blocks must be written in order. */
  write(scanned: RecordingBlock): Promise<void> | void;
  /** Completes the file. */
  finish(): Promise<void> | void;
  /** Closes the file, whether complete or not. */
  close(): void;
  bytes(): number;
}
