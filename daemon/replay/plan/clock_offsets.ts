/**
 * Clocks of several nodes brought onto one time line. A recording knows when its own node's clock was set, but not how
 * far that clock was from another node's: offsets come from who knows them.
 */
import { Problem, pointerTo } from '../../problem.ts';
import type { NodeClock, Store } from '../../store/store.ts';

/** By node: what is added to its times, nanoseconds. */
export type ClockOffsets = Readonly<Record<string, number>>;

/** A clock that a transaction's times come from. */
export interface ReplayedClock extends NodeClock {
  /** Added to its times. */
  offsetNs: number;
  /** Who says so: the caller, or nobody. */
  source: 'override' | 'none';
}

/** As the API gives it. */
export interface ClockView {
  node: string;
  offset_ns: bigint;
  stepped_ns: bigint;
  source: ReplayedClock['source'];
}

export function clockView({ node, offsetNs, steppedNs, source }: ReplayedClock): ClockView {
  return { node, offset_ns: BigInt(offsetNs), stepped_ns: steppedNs, source };
}

/** Throws a Problem for a node that nobody has recorded: a mistyped name would go unnoticed. */
export function checkNodes(offsets: ClockOffsets, store: Store): void {
  const named = Object.keys(offsets);
  if (named.length === 0) return;
  const known = store.nodes();
  const errors = named
    .filter((node) => !known.includes(node))
    .map((node) => ({
      pointer: pointerTo(['clock_offsets_ns', node]),
      message: `nothing is recorded of node ${JSON.stringify(node)}; there are ${known.join(', ')}`,
    }));
  if (errors.length > 0) throw new Problem('invalid_body', errors.map(({ message }) => message).join('; '), errors);
}

/** `nodes`: those of a transaction, which began and ended at these times. */
export function clocksOf(
  store: Store,
  offsets: ClockOffsets,
  nodes: readonly string[],
  [firstNs, lastNs]: readonly [bigint, bigint],
): ReplayedClock[] {
  return store.clocks(nodes, firstNs, lastNs + 1n).map((clock) => ({
    ...clock,
    offsetNs: offsetOf(offsets, clock.node),
    source: Object.hasOwn(offsets, clock.node) ? 'override' : 'none',
  }));
}

/** What is added to each node's times: all of it, less what is added to all, so that it is at least 0. */
export function clockShifts(offsets: ClockOffsets, nodes: readonly string[]): (node: string) => number {
  const leastNs = Math.min(...nodes.map((node) => offsetOf(offsets, node)));
  return (node) => offsetOf(offsets, node) - leastNs;
}

function offsetOf(offsets: ClockOffsets, node: string): number {
  return Object.hasOwn(offsets, node) ? offsets[node]! : 0;
}
