/** Defines a bench: a file `NAME.bench.ts` in this folder that exports these names. */

export interface Bench {
  /** One line on what is measured. */
  summary: string;
  /** Unit of the value and the anchors. */
  unit: string;
  run(context: BenchContext): Promise<BenchResult>;
}

export interface BenchContext {
  /** Aborts at Ctrl-C; everything that a bench started ends with it. */
  signal: AbortSignal;
  /** A temporary folder, removed at the end. */
  folder: string;
  /** Permanent folder for compiled programs, and for recordings that take long to make. */
  buildFolder: string;
  /** CPU for the load. Everything else runs on the others. */
  loadCpu: number;
  /** Sizes that the user set in place of the bench's own; a bench ignores those that it has no use for. */
  sizes: Sizes;
  /** Shows progress, on a terminal only. */
  progress(text: string): void;
}

export interface Sizes {
  /** Number of events of a synthetic recording. */
  events?: number;
  /** Length of a live load. */
  seconds?: number;
}

export interface BenchResult {
  /** kreplay's value. */
  value: number;
  /** The same measurement of each peer. */
  anchors: Record<string, number>;
  targets: Target[];
  /** Rows of the table, the heading first. */
  table: string[][];
  /** Further facts for the JSON file. */
  details: Record<string, unknown>;
}

export interface Target {
  text: string;
  measured: string;
  met: boolean;
}

/** An error whose message is all that the user needs. */
export class BenchError extends Error {
  override readonly name = 'BenchError';
}
