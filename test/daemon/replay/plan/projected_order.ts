/** The order in which a replay plays events, by its definition. */
import type { OnlyFilter } from '../../../../daemon/replay/plan/recorded.ts';
import type { Row } from '../../recorded.ts';
import { type Delays, delaysOf, type ThreadEvent } from './waited_latencies.ts';

export interface Event {
  startNs: number;
  durationNs: number;
  /** The pair (node, tid). */
  lane: string;
  isCall: boolean;
  isOwn: boolean;
  row: Row;
}

export interface Projected {
  recorded: number;
  startNs: number;
  durationNs: number;
}

/** Offset to add to each node's clock. */
export type Offsets = readonly (number | undefined)[];

export interface Change {
  fromIndex: number;
  extraLatencyNs: number;
}

/** The definition of the order: take the thread whose next event starts first. */
export function oracle(
  events: readonly Event[],
  changes: readonly Change[],
  { maxGapNs, only, offsets = [] }: { maxGapNs: number | null; only?: OnlyFilter | undefined; offsets?: Offsets },
): Projected[] {
  const types = only?.eventTypes ?? ['sys_write'];
  const isAffected = (isCall: boolean) => types.includes(isCall ? 'sys_write' : 'block_io');
  const lanes = new Map<string, Lane>();
  const firstOwn = events.findIndex(({ isOwn }) => isOwn);
  for (const [recorded, event] of events.entries()) {
    const { startNs, durationNs, isCall } = event;
    // What was written back before the first own event delays nothing.
    const lane = firstOwn < 0 || recorded < firstOwn ? `before ${recorded}` : event.lane;
    const of = lanes.get(lane) ?? { places: [], events: [], latencies: [] };
    lanes.set(lane, of);
    of.places.push(recorded);
    of.events.push({ startNs, endNs: startNs + durationNs, isCall, isAffected: isAffected(isCall) });
  }
  const order: Projected[] = [];
  const all = [...lanes.values()];
  for (;;) {
    const latencyNs = changes.findLast(({ fromIndex }) => fromIndex <= order.length)!.extraLatencyNs;
    const heads = all.flatMap((lane) => (lane.latencies.length < lane.places.length ? [headOf(lane, latencyNs)] : []));
    if (heads.length === 0) break;
    const startOf = ({ recorded, delays }: Head) =>
      events[recorded]!.startNs + (offsets[events[recorded]!.row.pid!] ?? 0) + delays.startNs;
    const next = heads.sort((a, b) => startOf(a) - startOf(b) || a.recorded - b.recorded)[0]!;
    const { recorded, delays } = next;
    order.push({
      recorded,
      startNs: startOf(next),
      durationNs: events[recorded]!.durationNs + delays.endNs - delays.startNs,
    });
    next.lane.latencies.push(next.latencyNs);
  }
  const originNs = order[0]!.startNs;
  for (const event of order) event.startNs -= originNs;
  if (maxGapNs !== null) shorten(order, maxGapNs);
  return order;
}

interface Lane {
  /** The index of each of its events in recorded order. */
  places: number[];
  events: ThreadEvent[];
  /** The latencies that held when its events were taken so far. */
  latencies: number[];
}

interface Head {
  lane: Lane;
  recorded: number;
  latencyNs: number;
  delays: Delays;
}

/** The next event of a thread. What begins within a call has the latency that held when the call began. */
function headOf(lane: Lane, currentNs: number): Head {
  const { places, events, latencies } = lane;
  const index = latencies.length;
  const { startNs, isCall } = events[index]!;
  const call = isCall ? -1 : events.findLastIndex((other, at) => at < index && other.isCall);
  const latencyNs = call >= 0 && startNs < events[call]!.endNs ? latencies[call]! : currentNs;
  const delays = delaysOf(events, (at) => latencies[at] ?? latencyNs)[index]!;
  return { lane, recorded: places[index]!, latencyNs, delays };
}

function shorten(order: Projected[], maxGapNs: number): void {
  for (let at = 1; at < order.length; at++) {
    const endNs = Math.max(...order.slice(0, at).map(({ startNs, durationNs }) => startNs + durationNs));
    const tooLongNs = order[at]!.startNs - endNs - maxGapNs;
    if (tooLongNs > 0) for (const later of order.slice(at)) later.startNs -= tooLongNs;
  }
}
