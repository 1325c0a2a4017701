/**
 * How a transaction's duration depends on the extra latency. Each of its events ends at
 *
 *   end(latency) = recorded end + latency * (how often its thread has waited for it by then)
 *
 * which is a line, so the end of the transaction is the highest line at each latency. Few lines are the highest anywhere:
 *
 *   end  |            /        a  one call gets the latency, and it ends late
 *        |        __/  b       b  many do, and the last of them ends early
 *        |   __--/    a
 *        |--____/________ latency
 */
import { endCall, goOn, noDelay, type ThreadDelay, take } from './thread_delay.ts';

export interface CurveLine {
  /** How many latencies delay it. */
  events: bigint;
  /** The end without latency. */
  endNs: bigint;
}

/** The lines that are the highest at some latency, by events ascending and by end descending; at least one. */
export type Curve = readonly CurveLine[];

/** A transaction without events that its caller waited for has no duration, whatever the latency. */
const NO_TIME: Curve = [{ events: 0n, endNs: 0n }];

/** Adds a line to those of a curve, which have no more events than it, and drops those that are nowhere the highest. */
export function addLine(lines: CurveLine[], line: CurveLine): void {
  for (let last = lines.at(-1); last; last = lines.at(-1)) {
    if (line.endNs < last.endNs) {
      if (line.events === last.events) return;
      const before = lines.at(-2);
      if (!before || !isCovered(before, last, line)) break;
    }
    lines.pop();
  }
  lines.push(line);
}

/** Whether the middle one of three lines is nowhere higher than both others. */
function isCovered(before: CurveLine, line: CurveLine, after: CurveLine): boolean {
  const untilNs = (before.endNs - line.endNs) * (after.events - line.events);
  const fromNs = (line.endNs - after.endNs) * (line.events - before.events);
  return untilNs >= fromNs;
}

/** The highest lines of several lists, whose ends are those of a clock that was at `originNs` at the start. */
export function curveOf(lists: Iterable<readonly CurveLine[]>, originNs = 0n): Curve {
  const lines: CurveLine[] = [];
  const all = [...lists].flat().map(({ events, endNs }) => ({ events, endNs: endNs - originNs }));
  all.sort((a, b) => (a.events < b.events ? -1 : a.events > b.events ? 1 : 0));
  for (const line of all) addLine(lines, line);
  return lines.length > 0 ? lines : NO_TIME;
}

/** A line of a curve as the API returns it. */
export interface CurveLineView {
  events: number;
  end_ns: bigint;
}

export function curveView(curve: Curve): CurveLineView[] {
  return curve.map(({ events, endNs }) => ({ events: Number(events), end_ns: endNs }));
}

/** The duration with an extra latency. */
export function endWith(curve: Curve, latencyNs: bigint): bigint {
  return curve.reduce((latest, { events, endNs }) => {
    const ns = endNs + events * latencyNs;
    return ns > latest ? ns : latest;
  }, 0n);
}

/** The lines of a thread's own events, as a clock has them that was at 0 at the start. */
export interface ThreadLines {
  calls: CurveLine[];
  /** Requests that get the latency, and the others, apart: each list has ascending numbers of events. */
  requests: readonly [CurveLine[], CurveLine[]];
}

export function noLines(): ThreadLines {
  return { calls: [], requests: [[], []] };
}

export function listsOf({ calls, requests }: ThreadLines): CurveLine[][] {
  return [calls, ...requests];
}

interface Lane {
  delay: ThreadDelay<bigint>;
  /** The end of the call under way, if that is an own event. */
  ownEndNs: bigint | null;
  lines: ThreadLines;
}

export interface CurvedEvent {
  startNs: bigint;
  durationNs: bigint;
  isCall: boolean;
  /** Whether it gets the latency. */
  isAffected: boolean;
  isOwn: boolean;
}

export interface CurveSums {
  /** Takes the events of each thread in order. */
  add(node: string, tid: number, event: CurvedEvent): void;
  /** Null without events. No event may be added after it. */
  curve(): Curve | null;
}

/** `shiftOf` aligns the clock of a node with those of the others. */
export function createCurveSums(shiftOf: (node: string) => bigint): CurveSums {
  const byNode = new Map<string, { shiftNs: bigint; lanes: Map<number, Lane> }>();
  let [hasEvents, hasOwn] = [false, false];
  /** The first start of an own event, by the aligned clocks. */
  let originNs: bigint | undefined;

  function ofNode(node: string) {
    let known = byNode.get(node);
    if (!known) {
      known = { shiftNs: shiftOf(node), lanes: new Map() };
      byNode.set(node, known);
    }
    return known;
  }

  return {
    add(node, tid, { startNs, durationNs, isCall, isAffected, isOwn }) {
      hasEvents = true;
      hasOwn ||= isOwn;
      if (!hasOwn) return;
      const { shiftNs, lanes } = ofNode(node);
      const alignedNs = startNs + shiftNs;
      if (isOwn && (originNs === undefined || alignedNs < originNs)) originNs = alignedNs;
      let lane = lanes.get(tid);
      if (!lane) {
        lane = { delay: noDelay(), ownEndNs: null, lines: noLines() };
        lanes.set(tid, lane);
      }
      const { delay, lines } = lane;
      if (goOn(delay, alignedNs, isCall)) addCall(lane);
      const endNs = alignedNs + durationNs;
      take(delay, endNs, isCall, isAffected ? 1 : 0);
      if (isCall) lane.ownEndNs = isOwn ? endNs : null;
      else if (isOwn) addRequest(lines, delay.added, isAffected, endNs);
    },
    curve() {
      if (!hasEvents) return null;
      const lanes = [...byNode.values()].flatMap((node) => [...node.lanes.values()]);
      for (const lane of lanes) if (endCall(lane.delay)) addCall(lane);
      return curveOf(
        lanes.flatMap(({ lines }) => listsOf(lines)),
        originNs,
      );
    },
  };
}

function addCall({ delay, ownEndNs, lines }: Lane): void {
  if (ownEndNs !== null) addLine(lines.calls, { events: BigInt(delay.added), endNs: ownEndNs });
}

export function addRequest({ requests }: ThreadLines, added: number, isAffected: boolean, endNs: bigint): void {
  if (isAffected) addLine(requests[0], { events: BigInt(added + 1), endNs });
  else addLine(requests[1], { events: BigInt(added), endNs });
}
