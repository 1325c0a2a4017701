/**
 * Aligns the clocks of several nodes on one time line. A recording contains when the clock of its node was set, but not
 * the offset between that clock and the clocks of other nodes. The caller supplies these offsets, or a fleet has
 * measured them.
 */

import { min } from '../../base/bigints.ts';
import { buildJsonPointer, Problem } from '../../base/problem.ts';
import type { OFFSET_SOURCES } from '../../contract/words.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';
import type { MeasuredClock } from '../../store/fleet_state.ts';
import type { NodeClock } from '../../store/store.ts';

/** Maps a node to the nanoseconds that are added to its times. The value is a bigint if a double would not be exact. */
export type ClockOffsets = Readonly<Record<string, number | bigint>>;

export interface AppliedOffsets {
  clockOffsetsNs: ClockOffsets;
  /** Maps each node with a measured offset to the maximum error of that offset. */
  clockUncertaintiesNs?: Readonly<Record<string, number>> | undefined;
}

/** The clock of a node that recorded events of the transaction. */
export interface ReplayedClock extends NodeClock {
  /** Offset that is added to the node's times. */
  offsetNs: number | bigint;
  source: (typeof OFFSET_SOURCES)[number];
  /** Maximum error of the offset; null if the offset was not measured. */
  uncertaintyNs: number | null;
}

/** A clock as the API returns it. */
export interface ClockView {
  node: string;
  offset_ns: bigint;
  stepped_ns: bigint;
  source: ReplayedClock['source'];
  uncertainty_ns: bigint | null;
}

export function buildClockView({ node, offsetNs, steppedNs, source, uncertaintyNs }: ReplayedClock): ClockView {
  const uncertainty_ns = uncertaintyNs === null ? null : BigInt(uncertaintyNs);
  return { node, offset_ns: BigInt(offsetNs), stepped_ns: steppedNs, source, uncertainty_ns };
}

/**
 * Throws a Problem if the caller named a node without recordings, because a mistyped name would otherwise go unnoticed.
 */
export function checkNodes(
  { clockOffsetsNs, clockUncertaintiesNs = {} }: AppliedOffsets,
  recordings: Pick<Recordings, 'nodes'>,
): void {
  const named = Object.keys(clockOffsetsNs).filter((node) => !Object.hasOwn(clockUncertaintiesNs, node));
  if (named.length === 0) return;
  const known = recordings.nodes();
  const errors = named
    .filter((node) => !known.includes(node))
    .map((node) => ({
      pointer: buildJsonPointer(['clock_offsets_ns', node]),
      message: `nothing is recorded of node ${JSON.stringify(node)}; there are ${known.join(', ')}`,
    }));
  if (errors.length > 0) throw new Problem('invalid_body', errors.map(({ message }) => message).join('; '), errors);
}

/** Returns the clock of each node, with its offset and with its steps from `firstNs` to `lastNs`. */
export function readReplayedClocks(
  recordings: Recordings,
  { clockOffsetsNs, clockUncertaintiesNs = {} }: AppliedOffsets,
  nodes: readonly string[],
  [firstNs, lastNs]: readonly [bigint, bigint],
): ReplayedClock[] {
  return recordings.readClocks(nodes, firstNs, lastNs + 1n).map((clock) => {
    const { node } = clock;
    const offsetNs = Object.hasOwn(clockOffsetsNs, node) ? clockOffsetsNs[node]! : 0;
    if (Object.hasOwn(clockUncertaintiesNs, node))
      return { ...clock, offsetNs, source: 'measured', uncertaintyNs: clockUncertaintiesNs[node]! };
    const source = Object.hasOwn(clockOffsetsNs, node) ? 'override' : 'none';
    return { ...clock, offsetNs, source, uncertaintyNs: null };
  });
}

/** Maximum difference between two offsets. The difference between any two recorded times then still fits in 64 bits. */
export const APART_NS_MAX = 2n ** 62n;

/**
 * Returns a function that computes the shift of a node's times: the node's offset minus the smallest offset of all
 * nodes. Throws a Problem for offsets that are too far apart.
 */
export function createClockShiftLookup(offsets: ClockOffsets, nodes: readonly string[]): (node: string) => bigint {
  const given = nodes.map((node) => getClockOffsetNs(offsets, node));
  const leastNs = given.reduce(min, given[0] ?? 0n);
  if (given.some((offsetNs) => offsetNs - leastNs > APART_NS_MAX)) {
    const message = 'offsets may be 146 years apart';
    throw new Problem('invalid_body', `clock_offsets_ns: ${message}`, [{ pointer: '/clock_offsets_ns', message }]);
  }
  return (node) => getClockOffsetNs(offsets, node) - leastNs;
}

export function getClockOffsetNs(offsets: ClockOffsets, node: string): bigint {
  return Object.hasOwn(offsets, node) ? BigInt(offsets[node]!) : 0n;
}

/* Selects which offsets measured by a fleet are applied to the clocks of its nodes. */

/**
 * Maximum uncertainty: the largest integer that a double represents exactly. A clock with a larger uncertainty gets no
 * offset.
 */
const UNCERTAINTY_NS_MAX = BigInt(Number.MAX_SAFE_INTEGER);
/**
 * Minimum ratio of an offset to its uncertainty. A smaller offset may be noise, and adding it could separate clocks
 * that agree.
 */
const UNCERTAINTIES_MIN = 3n;

interface MeasuredOffsets extends AppliedOffsets {
  clockUncertaintiesNs: Readonly<Record<string, number>>;
}

/** Selects the offsets that are significant; nodes without a measurement get no offset. */
export function selectMeasuredOffsets(clocks: readonly MeasuredClock[]): MeasuredOffsets {
  const applied = clocks.filter(isSignificant);
  return {
    clockOffsetsNs: Object.fromEntries(applied.map(({ node, offsetNs }) => [node, offsetNs])),
    clockUncertaintiesNs: Object.fromEntries(applied.map(({ node, uncertaintyNs }) => [node, Number(uncertaintyNs)])),
  };
}

function isSignificant({ offsetNs, uncertaintyNs }: MeasuredClock): boolean {
  if (uncertaintyNs === 0n || uncertaintyNs > UNCERTAINTY_NS_MAX) return false;
  const sizeNs = offsetNs < 0n ? -offsetNs : offsetNs;
  // With opposite signs, two offsets of half the limit differ by the whole limit.
  return sizeNs <= APART_NS_MAX / 2n && sizeNs >= UNCERTAINTIES_MIN * uncertaintyNs;
}
