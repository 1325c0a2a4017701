/** Pages of events for tests, and what their events look like when they are played. */
import type { PlanPage } from '../../../daemon/replay/plan/plan.ts';

/** A page of the events with this JSON. Their times grow by a millisecond; every third one is nobody's own. */
export function pageOf(all: readonly string[], first = 0): PlanPage {
  const bodies = all.map((json) => Buffer.from(json));
  let end = 0;
  return {
    ...{ first, count: all.length, isLast: true },
    startNs: Float64Array.from(all, (_, at) => at * 1e6),
    durationNs: Float64Array.from(all, (_, at) => at * 1000 + 5),
    isOwn: Uint8Array.from(all, (_, at) => (at % 3 === 2 ? 0 : 1)),
    bytes: Buffer.concat(bodies),
    ends: Uint32Array.from(bodies, ({ length }) => {
      end += length;
      return end;
    }),
  };
}

/** An event as it is prepared for a viewer: a lateness of zero, with room for 16 characters. */
export function replayedJson(
  page: PlanPage,
  at: number,
  { json, dueNs, timeoutNs }: { json: string; dueNs: bigint; timeoutNs: bigint | null },
): string {
  const [startNs, durationNs] = [page.startNs[at]!, page.durationNs[at]!];
  const isAfter = page.isOwn[at] === 1 && timeoutNs !== null && BigInt(startNs) + BigInt(durationNs) > timeoutNs;
  const times = `"index":${page.first + at},"offset_ns":${startNs},"due_ns":${dueNs}`;
  const rest = `"lateness_ns":${'0'.padEnd(16)},"duration_ns":${durationNs},"after_timeout":${isAfter}`;
  return `${json.slice(0, -1)},"replay":{${times},${rest}}}`;
}
