/**
 * Computes by how much a merge's latency changes lengthen an event. A call also waits for requests that begin within
 * it.
 */
import { findFirstAbove } from '../../base/binary_search.ts';
import { endCall, getsLatency, goOn, type ThreadDelay, take } from '../../model/thread_delay.ts';
import { createKindTest, type OnlyFilter, type RecordedEvents, type RecordedPage } from './recorded.ts';

/** A call that has begun: its recorded index, the delay of its thread, and the index of its latency change. */
interface BegunCall {
  thread: number;
  recorded: number;
  delay: ThreadDelay<number>;
  latencyAt: number;
}

interface Latency {
  extraLatencyNs: number;
  only?: OnlyFilter | undefined;
}

export interface CallDelays {
  isCallAt(page: RecordedPage, row: number): boolean;
  /**
   * Computes the latency that the latency change at `latencyAt` adds to an event of this kind, without the delay of its
   * requests.
   */
  computeAddedNs(latencyAt: number, kind: number): number;
  /** Computes how much longer a call takes. `endNs` is the call's recorded end. */
  computeCallDelayNs(call: BegunCall, page: RecordedPage, endNs: number): number;
}

export function callDelays(recorded: RecordedEvents, latency: readonly Latency[]): CallDelays {
  const affects = latency.map(({ only }) => createKindTest(only, recorded.kinds));
  const hasRequests = latency.map(({ only }) => getsLatency('block_io', only?.eventTypes));
  const computePageNumber = (index: number) => Math.floor(index / recorded.pageEvents);

  function isCallAt(page: RecordedPage, row: number): boolean {
    return recorded.kinds[page.kind[row]!]!.isCall;
  }

  function computeAddedNs(latencyAt: number, kind: number): number {
    return affects[latencyAt]!(kind) ? latency[latencyAt]!.extraLatencyNs : 0;
  }

  /**
   * Finds the thread's next event, even if the front of the merge has not reached it; undefined if no event begins
   * before `untilNs`.
   */
  function findFollowing(thread: number, index: number, page: RecordedPage, untilNs: number) {
    const inPage = page.nextRow[index - page.first]!;
    if (inPage > 0) return { row: inPage, page };
    for (;;) {
      const number = findNextPage(recorded.getThreadPages(thread), computePageNumber(index));
      if (number !== undefined) {
        const found = recorded.readPage(number)!;
        return { row: found.firstRow.get(thread)!, page: found };
      }
      if (recorded.isWhole) return undefined;
      const { count, startNs } = recorded.readPage(computePageNumber(recorded.known - 1))!;
      if (startNs[count - 1]! >= untilNs) return undefined;
      // Reading past the known pages discovers the next one.
      recorded.readPage(computePageNumber(recorded.known));
    }
  }

  return {
    isCallAt,
    computeAddedNs,
    computeCallDelayNs({ thread, recorded: call, delay, latencyAt }, callPage, endNs) {
      const ahead = { ...delay };
      let [index, page] = [call, callPage];
      while (hasRequests[latencyAt]) {
        const event = findFollowing(thread, index, page, endNs);
        if (!event) break;
        const { row } = event;
        page = event.page;
        index = page.first + row;
        const startNs = page.startNs[row]!;
        if (startNs >= endNs || isCallAt(page, row)) break;
        goOn(ahead, startNs, false);
        take(ahead, startNs + page.durationNs[row]!, false, computeAddedNs(latencyAt, page.kind[row]!));
      }
      endCall(ahead);
      return ahead.added - delay.added;
    },
  };
}

/** Finds the first one of the ascending `numbers` that is larger than `number`. */
export function findNextPage(numbers: readonly number[], number: number): number | undefined {
  return numbers[findFirstAbove(numbers, number)];
}
