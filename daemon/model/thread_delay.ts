/**
 * How much later the events of a thread are with a latency: by what its caller waits for, once.
 *
 *   call      |------------------ fsync -----------------|        |- write -|
 *   requests    |----|         |---|                           |------------------|
 *                 |------|       |----|
 *               a run            another run                 nobody waited for it
 *
 * A thread makes one call at a time, so a call that gets the latency delays what comes after it in its thread. Requests
 * that begin within a call are part of it: they begin as long after its start as they did, and a latency of the call
 * comes after them. If requests get the latency, a call takes longer by one latency for each run of its requests: a time
 * in which one of them is always under way. A caller may have waited in between, and did not wait for each of a run in
 * turn. A request that ends after the call is not what the call waited for. Between two calls the same holds: what ends
 * before the next call may have been waited for, as a page that a program needs is, and what goes on was not.
 *
 * What was written back before the first own event of a transaction delays nothing: its caller had not begun.
 *
 * Times are those of one clock, offsets or absolute ones; amounts are nanoseconds or numbers of latencies.
 */
export interface ThreadDelay<Time extends number | bigint> {
  /** The delay of an event that begins now. */
  added: number;
  /** When the call under way ends, as recorded; null between calls. */
  callEnd: Time | null;
  /** The amount that the call itself gets. */
  callAdded: number;
  /** The latest end of the run of requests, as recorded; null without one. */
  runEnd: Time | null;
  /** The earliest end of a request of the run that gets an amount, and the largest of the amounts. */
  runFirstEnd: Time | null;
  runAdded: number;
}

/** Whether a program makes an event of this type, rather than the kernel for it. */
export function isCallType(eventType: string): boolean {
  return eventType !== 'block_io';
}

/** Which types of event get a latency that is not limited to some: what callers wait for. */
export function getsLatency(eventType: string, wanted: readonly string[] | undefined): boolean {
  return wanted ? wanted.includes(eventType) : isCallType(eventType);
}

export function createThreadDelay<Time extends number | bigint>(): ThreadDelay<Time> {
  return { added: 0, callEnd: null, callAdded: 0, runEnd: null, runFirstEnd: null, runAdded: 0 };
}

/**
 * Goes on to the start of the thread's next event, whose delay is then `added`. Returns whether that has ended a call,
 * whose end is later by the same.
 */
export function goOn<Time extends number | bigint>(delay: ThreadDelay<Time>, start: Time, isCall: boolean): boolean {
  const { callEnd, runEnd } = delay;
  // A thread that makes a call has left the one before, whatever its clock says.
  if (callEnd !== null && (isCall || start >= callEnd)) return endCall(delay);
  if (runEnd !== null && (isCall || start >= runEnd)) endRun(delay, start);
  return false;
}

/** Takes the event that has begun; `amount` is what it gets itself. */
export function take<Time extends number | bigint>(
  delay: ThreadDelay<Time>,
  end: Time,
  isCall: boolean,
  amount: number,
): void {
  if (isCall) {
    delay.callEnd = end;
    delay.callAdded = amount;
    return;
  }
  if (delay.runEnd === null || end > delay.runEnd) delay.runEnd = end;
  if (amount === 0) return;
  if (delay.runFirstEnd === null || end < delay.runFirstEnd) delay.runFirstEnd = end;
  if (amount > delay.runAdded) delay.runAdded = amount;
}

/** Ends the call under way: `added` is then the delay of its end. Returns whether there was one. */
export function endCall<Time extends number | bigint>(delay: ThreadDelay<Time>): boolean {
  if (delay.callEnd === null) return false;
  endRun(delay, delay.callEnd);
  delay.added += delay.callAdded;
  delay.callEnd = null;
  delay.callAdded = 0;
  return true;
}

function endRun<Time extends number | bigint>(delay: ThreadDelay<Time>, at: Time): void {
  if (delay.runFirstEnd !== null && delay.runFirstEnd <= at) delay.added += delay.runAdded;
  delay.runEnd = null;
  delay.runFirstEnd = null;
  delay.runAdded = 0;
}
