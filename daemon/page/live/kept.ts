/** Keeps the newest live events for the page, in a fixed amount of memory. */
import { parseJson } from '../../base/exact_json.ts';
import { createMinute, type Minute } from './minute.ts';
import { createNewest, type Newest } from './newest.ts';
import type { LostFrame } from './row_cells.ts';

export interface Kept {
  readonly newest: Newest;
  /** The last minute of events. Like `arrivals`, it is null until the daemon has answered. */
  readonly minute: Minute | null;
  readonly arrivals: Arrivals | null;
  readonly eventCount: number;
  /** Number of events that were not recorded; a loss of unknown size adds 0. */
  readonly lostCount: number;
  readonly hasLost: boolean;
  /** Sets the daemon's wall clock, in milliseconds since the epoch; only the first call has an effect. */
  setClock(daemonMs: number, nowMs: number): void;
  takeEvent(text: string, nowMs: number): void;
  takeLoss(text: string): void;
}

export function createKept(): Kept {
  const newest = createNewest();
  let minute: Minute | null = null;
  let arrivals: Arrivals | null = null;
  let [eventCount, lostCount, hasLost] = [0, 0, false];

  function hatch({ from, to }: LostFrame): void {
    minute!.markLost(BigInt(from), BigInt(to));
  }

  return {
    newest,
    get minute() {
      return minute;
    },
    get arrivals() {
      return arrivals;
    },
    get eventCount() {
      return eventCount;
    },
    get lostCount() {
      return lostCount;
    },
    get hasLost() {
      return hasLost;
    },
    setClock(daemonMs, nowMs) {
      arrivals ??= createArrivals(daemonMs - nowMs, nowMs);
      minute ??= createMinute(arrivals.computeClockNs(nowMs));
    },
    takeEvent(text, nowMs) {
      const head = parseEventHead(text);
      if (!head) return;
      const { startNs, durationNs, isFailed } = head;
      eventCount++;
      const isLate = text.endsWith(',"late":true}');
      // The delay of the first event is measured even if the event is late, because the page learns the clock of the
      // recorded machines only from events.
      arrivals!.add(startNs + durationNs, nowMs, isLate && eventCount > 1);
      const clockNs = arrivals!.computeClockNs(nowMs);
      // The first event shows the clock of the recorded machines. That clock may be behind the daemon's clock, so the
      // minute is created again.
      if (eventCount === 1) {
        minute = createMinute(clockNs);
        for (const row of newest.rows()) if (row.kind === 'lost') hatch(parseJson(row.text) as LostFrame);
      }
      minute!.advance(clockNs);
      minute!.add(startNs, durationNs, isFailed);
      newest.add(isLate ? 'late' : 'event', text);
    },
    takeLoss(text) {
      const loss = parseJson(text) as LostFrame;
      hasLost = true;
      lostCount += loss.lost;
      hatch(loss);
      newest.add('lost', text);
    },
  };
}

/* Counts arriving events, and measures the page's lag from the time between an event's end and its arrival. */

const SECONDS = 60;
/**
 * Maximum time by which the end of an event may be ahead of the daemon's clock. Further ahead, the event's time is
 * wrong: if the event counted, all other events would look late.
 */
const AHEAD_MS_MAX = 5000;
/** After this time without an event, the page has received every event that the daemon held back, and its lag is 0. */
const QUIET_MS = 2000;

interface Arrivals {
  /**
   * Counts an event that ended at `endNs`, in nanoseconds since the epoch. The delay of a late event is not measured,
   * because the page did not cause it: the event took long to complete, or its node could not send it.
   */
  add(endNs: bigint, nowMs: number, isLate?: boolean): void;
  /** Number of events in the last whole second. */
  countLastSecond(nowMs: number): number;
  /** Events per second during the last 60 whole seconds, or since the beginning if that is shorter. */
  computeMinuteRate(nowMs: number): number;
  /** Milliseconds by which recent events took longer to arrive than the fastest event so far. */
  computeLagMs(nowMs: number): number;
  /** The clock of the recorded machines, derived from events, in nanoseconds since the epoch. */
  computeClockNs(nowMs: number): bigint;
}

/** Creates the counts of arrivals; `epochMs` is the daemon's wall clock when `nowMs` is 0. */
export function createArrivals(epochMs: number, beganMs: number): Arrivals {
  const counts = new Uint32Array(SECONDS + 1);
  const seconds = new Float64Array(SECONDS + 1).fill(-1);
  /**
   * The shortest time so far from an event's end to its arrival: the difference between the clocks, plus the delay that
   * every event has.
   */
  let leastMs = Number.POSITIVE_INFINITY;
  /**
   * The shortest time from an event's end to its arrival, during the present second (`openMs`) and during the last
   * earlier second that had events (`closedMs`).
   */
  let [openSecond, openMs, closedMs] = [-1, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  let newestMs = Number.NEGATIVE_INFINITY;

  const toSecond = (nowMs: number) => Math.floor(nowMs / 1000);

  function getCount(second: number): number {
    const slot = second % (SECONDS + 1);
    return seconds[slot] === second ? counts[slot]! : 0;
  }

  return {
    add(endNs, nowMs, isLate = false) {
      const second = toSecond(nowMs);
      const slot = second % (SECONDS + 1);
      if (seconds[slot] !== second) {
        seconds[slot] = second;
        counts[slot] = 0;
      }
      counts[slot]!++;
      if (isLate) return;
      const lagMs = epochMs + nowMs - Number(endNs / 1000n) / 1000;
      if (lagMs < -AHEAD_MS_MAX) return;
      newestMs = nowMs;
      leastMs = Math.min(leastMs, lagMs);
      if (second !== openSecond) [openSecond, closedMs, openMs] = [second, openMs, Number.POSITIVE_INFINITY];
      openMs = Math.min(openMs, lagMs);
    },
    countLastSecond: (nowMs) => getCount(toSecond(nowMs) - 1),
    computeMinuteRate(nowMs) {
      const end = toSecond(nowMs);
      const from = Math.max(beganMs / 1000, end - SECONDS);
      let sum = 0;
      for (let second = Math.floor(from); second < end; second++) sum += getCount(second);
      // The divisor is at least one second, because a fraction of a second gives no rate.
      return sum / Math.max(end - from, 1);
    },
    computeLagMs(nowMs) {
      if (nowMs - newestMs > QUIET_MS) return 0;
      return Math.min(openMs, closedMs) - leastMs;
    },
    computeClockNs(nowMs) {
      const lagMs = Number.isFinite(leastMs) ? leastMs : 0;
      return BigInt(Math.round((epochMs + nowMs - lagMs) * 1000)) * 1000n;
    },
  };
}

/*
 * Finds the fields that the map needs in an event's text. Parsing the whole texts of thousands of events a second
 * would be most of the page's work, and would create most of its garbage.
 */

/**
 * The fields that the map needs. The daemon writes JSON without spaces, so a text search for a name with its colon
 * finds a field.
 */
interface EventHead {
  startNs: bigint;
  durationNs: bigint;
  isFailed: boolean;
}

/**
 * Finds the fields without parsing. JSON escapes quotation marks in texts, so a recorded name never looks like a
 * field. Returns null if the text is not an event.
 */
export function parseEventHead(text: string): EventHead | null {
  const startNs = parseIntegerField(text, '"timestamp_ns":');
  const durationNs = parseIntegerField(text, '"duration_ns":');
  const result = parseIntegerField(text, '"result":');
  if (startNs === null || durationNs === null || durationNs < 0n) return null;
  return { startNs, durationNs, isFailed: result !== null && result < 0n };
}

const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
/** Maximum number of digits of a 64-bit integer. */
const DIGITS_MAX = 20;

function parseIntegerField(text: string, name: string): bigint | null {
  const found = text.indexOf(name);
  if (found < 0) return null;
  const from = found + name.length;
  let to = text.charCodeAt(from) === MINUS ? from + 1 : from;
  const first = to;
  while (text.charCodeAt(to) >= ZERO && text.charCodeAt(to) <= NINE) to++;
  return to === first || to - first > DIGITS_MAX ? null : BigInt(text.slice(from, to));
}
