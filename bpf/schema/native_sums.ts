/** Computes sums over groups of rows in C++ (native/columns/sums.h): V8 takes several times as long. */
import { createRequire } from 'node:module';
import type { ColumnArray } from './block.ts';

declare const GROUPS: unique symbol;
declare const SUMS: unique symbol;
/**
 * Memory of the addon: NativeGroups maps the codes of rows to numbers of groups, and NativeSums maps these numbers to
 * sums.
 */
export interface NativeGroups {
  readonly [GROUPS]: never;
}
export interface NativeSums {
  readonly [SUMS]: never;
}

/** Equal values of a dimension have equal codes. */
export type Codes = ColumnArray | Float64Array;

/** The sums of a group; `blocks` belongs to a histogram of durations, see daemon/sums/histogram.ts. */
export interface GroupSums {
  number: number;
  count: number;
  errorCount: number;
  maxNs: bigint;
  durationNs: bigint;
  bytes: bigint;
  blocks: (Float64Array | undefined)[];
}

interface NativeSumsFunctions {
  /** Creates an empty set of groups; `dimensions` is the number of arrays of codes that the rows have. */
  createGroups(dimensions: number): NativeGroups;
  /** Sets `numbers` for the rows [from, to); returns the first row whose group is not known, or `to`. */
  findGroups(groups: NativeGroups, codes: readonly Codes[], from: number, to: number, numbers: Uint32Array): number;
  addGroup(groups: NativeGroups, codes: readonly Codes[], row: number, number: number): void;
  createSums(): NativeSums;
  /** Adds the rows [from, to) to the sums of their groups; returns the number of groups that have rows. */
  addRows(
    sums: NativeSums,
    numbers: Uint32Array,
    from: number,
    to: number,
    durations: ColumnArray,
    results: ColumnArray,
  ): number;
  /** Returns the sums and resets them. */
  takeSums(sums: NativeSums): GroupSums[];
}

export const nativeSums: NativeSumsFunctions = createRequire(import.meta.url)('#columns');
