/** Compares the recorded calls of a program with those that it timed itself. */
import type { Event } from './guest_query.ts';

/** Times are by the program's own clock, which is the wall clock: nanoseconds since the epoch. */
export interface TimedCall {
  tid?: number;
  syscall?: string;
  before: number;
  after: number;
  result: number;
}

/** The agent measures the wall clock's offset from the kernel's clock as precisely as an emulated CPU reads clocks. */
const CLOCK_TOLERANCE_NS = 2e6;

function isOf(event: Event, { syscall, before, after, result }: TimedCall): boolean {
  const { timestamp_ns: from, duration_ns: duration } = event;
  if (event.result !== result || (syscall !== undefined && event.syscall !== syscall)) return false;
  if (duration > after - before + CLOCK_TOLERANCE_NS) return false;
  return from >= before - CLOCK_TOLERANCE_NS && from + duration <= after + CLOCK_TOLERANCE_NS;
}

/**
 * Counts the calls of one thread that have no event; both lists are in their order.
 * @throws Error if an event is not one of the calls, by its place, result or time
 */
function missingOfThread(events: readonly Event[], calls: readonly TimedCall[]): number {
  let next = 0;
  for (const call of calls) {
    const event = events[next];
    if (event && isOf(event, call)) next++;
  }
  if (next < events.length) {
    const { syscall, result, timestamp_ns, duration_ns } = events[next]!;
    throw new Error(
      `event ${next}, ${syscall} = ${result} at ${timestamp_ns} for ${duration_ns} ns, is none of its calls`,
    );
  }
  return calls.length - events.length;
}

/** Counts the calls that have no event. */
export function missingCalls(events: readonly Event[], calls: readonly TimedCall[]): number {
  const isKnown = calls[0]?.tid !== undefined;
  const threads = Map.groupBy(calls, ({ tid }) => tid);
  const strangers = isKnown ? events.filter(({ tid }) => !threads.has(tid)).length : 0;
  if (strangers > 0) throw new Error(`${strangers} events of threads that made no calls`);
  const counts = [...threads].map(([tid, own]) =>
    missingOfThread(isKnown ? events.filter((event) => event.tid === tid) : events, own),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}
