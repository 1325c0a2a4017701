/**
 * Computes how much a latency delays the events of a thread: each latency for which the thread waits counts once.
 *
 *   call      |------------------ fsync -----------------|        |- write -|
 *   requests    |----|         |---|                           |------------------|
 *                 |------|       |----|
 *               a run            another run                 nobody waited for it
 *
 * A thread makes one call at a time, so a call that gets the latency delays the later events of its thread. Requests
 * that begin within a call are part of the call: they keep their offset from the call's start, and a latency of the
 * call itself comes after them. If requests get the latency, a call takes longer by one latency for each run of its
 * requests. A run is a period in which at least one request is under way at any time: the caller may have waited
 * between two runs, but did not wait for the requests of a run one after the other. The call did not wait for a request
 * that ends after the call. The same holds between two calls: the thread may have waited for a request that ends before
 * the next call, for example for a page that the program needs, but not for a request that goes on.
 *
 * Write-back before the first own event of a transaction delays no event, because the transaction's caller had not
 * begun.
 *
 * All times come from one clock, and are either offsets or absolute. Amounts are nanoseconds or numbers of latencies.
 */
export interface ThreadDelay<Time extends number | bigint> {
  /** The delay, as an amount, of an event that begins now. */
  added: number;
  /** Recorded end of the call under way; null between calls. */
  callEnd: Time | null;
  /** The amount of latency that the call under way gets. */
  callAdded: number;
  /** The latest recorded end within the run of requests; null if there is no run. */
  runEnd: Time | null;
  /** The earliest end among the requests of the run that get a latency. */
  runFirstEnd: Time | null;
  /** The largest latency of a request of the run, as an amount. */
  runAdded: number;
}

/** Returns whether events of this type are calls of programs, and not requests that the kernel makes for them. */
export function isCallType(eventType: string): boolean {
  return eventType !== 'block_io';
}

/** Returns whether events of a type get the latency; without a list of wanted types, only calls get it. */
export function getsLatency(eventType: string, wanted: readonly string[] | undefined): boolean {
  return wanted ? wanted.includes(eventType) : isCallType(eventType);
}

export function createThreadDelay<Time extends number | bigint>(): ThreadDelay<Time> {
  return { added: 0, callEnd: null, callAdded: 0, runEnd: null, runFirstEnd: null, runAdded: 0 };
}

/**
 * Advances to the start of the thread's next event: `added` is then the delay of that event. Returns whether a call has
 * ended; the call's end has the same delay.
 */
export function goOn<Time extends number | bigint>(delay: ThreadDelay<Time>, start: Time, isCall: boolean): boolean {
  const { callEnd, runEnd } = delay;
  // A thread that makes a call has returned from its previous call, even if the recorded times overlap.
  if (callEnd !== null && (isCall || start >= callEnd)) return endCall(delay);
  if (runEnd !== null && (isCall || start >= runEnd)) endRun(delay, start);
  return false;
}

/** Adds the event that has begun; `amount` is the event's own latency. */
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

/** Ends the call under way: `added` is then the delay of the call's end. Returns whether a call was under way. */
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
