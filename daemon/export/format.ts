/** What events can leave as. */
import type { Dictionary, ScannedBlock } from '../store/store.ts';
import { bundleWriter } from './bundle.ts';
import { csvEncoder } from './csv.ts';
import { ndjsonEncoder } from './ndjson.ts';
import { perfettoEncoder } from './perfetto/trace.ts';
import type { ClockStep, Loss } from './source.ts';
import { sqliteWriter } from './sqlite.ts';

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

interface StreamFormat {
  readonly kind: 'stream';
  readonly binary: boolean;
  /** `-`: standard output. */
  readonly defaultOutput: string;
  encoder(surroundings: Surroundings): Encoder;
}

interface FileFormat {
  readonly kind: 'file';
  readonly defaultOutput: string;
  /** `path`: an empty file. */
  writer(path: string, surroundings: Surroundings): EventWriter;
}

export const FORMATS = {
  bundle: { kind: 'file', defaultOutput: 'incident.kreplay', writer: bundleWriter },
  ndjson: { kind: 'stream', binary: false, defaultOutput: '-', encoder: ndjsonEncoder },
  csv: { kind: 'stream', binary: false, defaultOutput: '-', encoder: csvEncoder },
  sqlite: { kind: 'file', defaultOutput: 'incident.sqlite', writer: sqliteWriter },
  perfetto: { kind: 'stream', binary: true, defaultOutput: 'incident.pftrace', encoder: perfettoEncoder },
} as const satisfies Record<string, StreamFormat | FileFormat>;

export type FormatName = keyof typeof FORMATS;

export type Format = StreamFormat | FileFormat;
