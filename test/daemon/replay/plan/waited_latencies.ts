/** How much a latency delays each event of a thread, by the words of the documentation and without any shortcut. */

export interface ThreadEvent {
  startNs: number;
  endNs: number;
  isCall: boolean;
  isAffected: boolean;
}

/** The delays of one event: that of its start, and that of its end. */
export interface Delays {
  startNs: number;
  endNs: number;
}

/** A run of requests: one of them is always under way. */
interface Run {
  requests: number[];
  endNs: number;
}

/** `events` are in order; `getLatencyNs` says what an event gets if it gets the latency. */
export function delaysOf(events: readonly ThreadEvent[], latencyNs: (index: number) => number): Delays[] {
  /** The call within which each request began; undefined between calls. */
  const callOf = events.map(({ isCall, startNs }, index) => {
    const call = isCall ? -1 : events.findLastIndex((other, at) => at < index && other.isCall);
    return call >= 0 && startNs < events[call]!.endNs ? call : undefined;
  });
  /** How many calls began before, which is the same for all of a call or of the time between two. */
  const callsBefore = events.map((_, index) => events.filter(({ isCall }, at) => isCall && at < index).length);
  const runs: Run[] = [];
  for (const [index, { isCall, startNs, endNs }] of events.entries()) {
    if (isCall) continue;
    const run = runs.at(-1);
    const last = run?.requests.at(-1);
    const isTogether = last !== undefined && callOf[last] === callOf[index] && callsBefore[last] === callsBefore[index];
    if (run && isTogether && startNs < run.endNs) {
      run.requests.push(index);
      run.endNs = Math.max(run.endNs, endNs);
    } else runs.push({ requests: [index], endNs });
  }

  /** What a run adds to its thread. */
  function ofRun({ requests }: Run): number {
    const call = callOf[requests[0]!];
    const nextCall = events.find(({ isCall }, at) => isCall && at > requests[0]!);
    const untilNs = call !== undefined ? events[call]!.endNs : (nextCall?.startNs ?? Number.POSITIVE_INFINITY);
    const affected = requests.filter((index) => events[index]!.isAffected);
    if (!affected.some((index) => events[index]!.endNs <= untilNs)) return 0;
    return Math.max(...affected.map(latencyNs));
  }

  const own = (index: number) => (events[index]!.isAffected ? latencyNs(index) : 0);
  const sum = (all: readonly number[]) => all.reduce((total, ns) => total + ns, 0);
  return events.map(({ isCall }, index) => {
    const calls = events.flatMap((other, at) => (other.isCall && at < index && at !== callOf[index] ? [own(at)] : []));
    const earlier = runs.filter(({ requests }) => requests.at(-1)! < index && !requests.includes(index));
    // A run that goes on is one with the event if that is a request of it; else the event is not of its time.
    const startNs = sum(calls) + sum(earlier.map(ofRun));
    const within = runs.filter(({ requests }) => isCall && callOf[requests[0]!] === index);
    return { startNs, endNs: startNs + own(index) + sum(within.map(ofRun)) };
  });
}
