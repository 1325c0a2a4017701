/** What a bench is: a file `NAME.bench.ts` in this folder that exports these names. */

export interface Bench {
  /** What is measured, in a line. */
  summary: string;
  /** Of the value and the anchors. */
  unit: string;
  run(context: BenchContext): Promise<BenchResult>;
}

export interface BenchContext {
  /** Aborts at Ctrl-C; whatever a bench started ends with it. */
  signal: AbortSignal;
  /** Temporary, removed when all is done. */
  folder: string;
  /** Where programs that a bench compiles go, and recordings that take long to make; kept. */
  buildFolder: string;
  /** CPU for the load. Everything else runs on the other ones. */
  loadCpu: number;
  /** What the user asked for instead of the bench's own; a bench without a use for one ignores it. */
  sizes: Sizes;
  /** Says what is going on, on a terminal. */
  progress(text: string): void;
}

export interface Sizes {
  /** Events of a made-up recording. */
  events?: number;
  /** Length of a live load. */
  seconds?: number;
}

export interface BenchResult {
  /** kreplay's. */
  value: number;
  /** The same of each peer. */
  anchors: Record<string, number>;
  targets: Target[];
  /** Heading first. */
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
