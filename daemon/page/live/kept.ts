/** What the page keeps of live events, in memory that does not grow. */
import { parseJson } from '../../base/exact_json.ts';
import { type Arrivals, createArrivals } from './arrivals.ts';
import { eventHead } from './event_head.ts';
import { createMinute, type Minute } from './minute.ts';
import { createNewest, type Newest } from './newest.ts';
import type { Loss } from './row_cells.ts';

export interface Kept {
  readonly newest: Newest;
  /** Null until the daemon has answered, as is `arrivals`. */
  readonly minute: Minute | null;
  readonly arrivals: Arrivals | null;
  readonly eventCount: number;
  /** Events that were not recorded, as far as they could be counted. */
  readonly lostCount: number;
  readonly hasLost: boolean;
  /** Takes the daemon's wall clock, milliseconds since the epoch; the first one counts. */
  setClock(daemonMs: number, nowMs: number): void;
  takeEvent(text: string, nowMs: number): void;
  takeLoss(text: string): void;
}

export function createKept(): Kept {
  const newest = createNewest();
  let minute: Minute | null = null;
  let arrivals: Arrivals | null = null;
  let [eventCount, lostCount, hasLost] = [0, 0, false];

  function hatch({ from, to }: Loss): void {
    minute!.lose(BigInt(from), BigInt(to));
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
      minute ??= createMinute(arrivals.clockNs(nowMs));
    },
    takeEvent(text, nowMs) {
      const head = eventHead(text);
      if (!head) return;
      const { startNs, durationNs, isFailed } = head;
      eventCount++;
      const isLate = text.endsWith(',"late":true}');
      // Without another event a late one is what is known of the clock.
      arrivals!.add(startNs + durationNs, nowMs, isLate && eventCount > 1);
      const clockNs = arrivals!.clockNs(nowMs);
      // The first event shows the clock of the recorded machines, which may be behind that of the daemon.
      if (eventCount === 1) {
        minute = createMinute(clockNs);
        for (const row of newest.rows()) if (row.kind === 'lost') hatch(parseJson(row.text) as Loss);
      }
      minute!.advance(clockNs);
      minute!.add(startNs, durationNs, isFailed);
      newest.add(isLate ? 'late' : 'event', text);
    },
    takeLoss(text) {
      const loss = parseJson(text) as Loss;
      hasLost = true;
      lostCount += loss.lost;
      hatch(loss);
      newest.add('lost', text);
    },
  };
}
