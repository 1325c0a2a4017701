/**
 * Brings the clocks of several nodes onto one time line. A recording contains when its own node's clock was set, but
 * not how far that clock was from another node's: the caller supplies these offsets.
 */
import { Problem, pointerTo } from '../../problem.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';
import type { NodeClock } from '../../store/store.ts';

/** Maps a node to the nanoseconds that are added to its times. */
export type ClockOffsets = Readonly<Record<string, number>>;

/** The clock of a node that recorded events of the transaction. */
export interface ReplayedClock extends NodeClock {
  /** Offset that is added to its times. */
  offsetNs: number;
  /** Origin of the offset: `override` from the caller, `none` if there is no offset. */
  source: 'override' | 'none';
}

/** A clock as the API returns it. */
export interface ClockView {
  node: string;
  offset_ns: bigint;
  stepped_ns: bigint;
  source: ReplayedClock['source'];
}

export function clockView({ node, offsetNs, steppedNs, source }: ReplayedClock): ClockView {
  return { node, offset_ns: BigInt(offsetNs), stepped_ns: steppedNs, source };
}

/** Throws a Problem for a node without recordings: a mistyped name would go unnoticed. */
export function checkNodes(offsets: ClockOffsets, recordings: Recordings): void {
  const named = Object.keys(offsets);
  if (named.length === 0) return;
  const known = recordings.nodes();
  const errors = named
    .filter((node) => !known.includes(node))
    .map((node) => ({
      pointer: pointerTo(['clock_offsets_ns', node]),
      message: `nothing is recorded of node ${JSON.stringify(node)}; there are ${known.join(', ')}`,
    }));
  if (errors.length > 0) throw new Problem('invalid_body', errors.map(({ message }) => message).join('; '), errors);
}

/** The clocks of a transaction's nodes between its first and last timestamp. */
export function clocksOf(
  recordings: Recordings,
  offsets: ClockOffsets,
  nodes: readonly string[],
  [firstNs, lastNs]: readonly [bigint, bigint],
): ReplayedClock[] {
  return recordings.clocks(nodes, firstNs, lastNs + 1n).map((clock) => ({
    ...clock,
    offsetNs: offsetOf(offsets, clock.node),
    source: Object.hasOwn(offsets, clock.node) ? 'override' : 'none',
  }));
}

/** The shift of each node's times: its offset minus the smallest offset, so that it is at least 0. */
export function clockShifts(offsets: ClockOffsets, nodes: readonly string[]): (node: string) => number {
  const leastNs = Math.min(...nodes.map((node) => offsetOf(offsets, node)));
  return (node) => offsetOf(offsets, node) - leastNs;
}

function offsetOf(offsets: ClockOffsets, node: string): number {
  return Object.hasOwn(offsets, node) ? offsets[node]! : 0;
}
