/** What a format is made of: it gets blocks of events and what surrounds them. */
import type { Dictionary, ScannedBlock } from '../store/store.ts';
import type { ClockStep, Loss } from './source.ts';

/** What leaves with the events. */
export interface Surroundings {
  readonly dictionary: Dictionary;
  /** When the recording was begun. */
  readonly createdNs: bigint;
  /** Start of the first event. */
  readonly firstNs: bigint;
  /** Asked for at the end: reading is how damage comes to light. */
  losses(): readonly Loss[];
  readonly clockSteps: readonly ClockStep[];
}

/** Gives the pieces of a stream. */
export interface Encoder {
  head(): string | Buffer;
  /** Of blocks in order: short ones, so that a slow reader holds up little. */
  pieces(scanned: ScannedBlock): Iterable<string | Buffer>;
  tail(): string | Buffer;
}

export interface EventWriter {
  /** In order. */
  write(scanned: ScannedBlock): Promise<void> | void;
  /** Makes it whole. */
  finish(): Promise<void> | void;
  /** Lets go of the file, whole or not. */
  close(): void;
  bytes(): number;
}
