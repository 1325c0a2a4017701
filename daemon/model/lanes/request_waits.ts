/**
 * Determines whether the thread that queued a request waited for it, from the recorded writes and syncs of the thread.
 *
 *   calls     |---- fsync ----|            |- write -|
 *   requests    |-------|          |---|        |--------------|     |------|
 *               in a call          unknown   in a call, until it ends    unknown
 *                        |-------------------------|
 *                        nobody waited: the thread made a call meanwhile
 *
 * If a request begins within a call, the thread may wait for it until the call ends. If a request begins between calls,
 * its cause is not recorded: a read or a page fault, which waits for the request, or read-ahead, which does not wait.
 */
import { findFirstAbove } from '../../base/binary_search.ts';

export const WAITS = { inCall: 0, unknown: 1, nobody: 2 } as const;

/** The calls of one thread, ordered by start, then by end. */
export interface CallTimes {
  starts: number[];
  ends: number[];
}

export interface RequestWait {
  kind: (typeof WAITS)[keyof typeof WAITS];
  /** End of the call in which the request began; the start of the request if it began outside of any call. */
  untilNs: number;
}

/** Sorts the calls of a thread; `calls` contains their starts and ends, alternating, with the calls in any order. */
export function toCallTimes(calls: readonly number[]): CallTimes {
  const places = Array.from({ length: calls.length / 2 }, (_, call) => call * 2);
  places.sort((a, b) => calls[a]! - calls[b]! || calls[a + 1]! - calls[b + 1]!);
  return { starts: places.map((at) => calls[at]!), ends: places.map((at) => calls[at + 1]!) };
}

const NO_CALLS: CallTimes = { starts: [], ends: [] };

export function findRequestWait({ starts, ends }: CallTimes = NO_CALLS, startNs: number, endNs: number): RequestWait {
  const next = findFirstAbove(starts, startNs);
  if (next > 0 && startNs < ends[next - 1]!) return { kind: WAITS.inCall, untilNs: ends[next - 1]! };
  const isNobody = next < starts.length && starts[next]! < endNs;
  return { kind: isNobody ? WAITS.nobody : WAITS.unknown, untilNs: startNs };
}
