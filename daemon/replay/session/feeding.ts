/** Has the frames of the next events written and feeds them to the player, ahead of their time. */
import type { ReplayClock, SteadyNow } from '../clock/clock.ts';
import { FRAME } from '../clock/native_player.ts';
import type { Track } from '../clock/player.ts';
import { setDue } from './due.ts';
import type { EventBuffer } from './event_buffer.ts';
import type { SessionStream } from './stream.ts';

/**
 * How long before their time events are fed to the player, and how many at most: a command takes them back. A session
 * that plays slowly asks for a CPU every quarter of a second only.
 */
const FED_AHEAD_NS = 500_000_000n;
const FED_MAX = 8192;
const FIRST_EVENTS = 8;
/** Events that are handed to the player at once, and their numbers: they are used by one call at a time. */
const RUN_EVENTS = 512;
const runFrames = new BigInt64Array(RUN_EVENTS * FRAME.length);
const runOf = (count: number) => runFrames.subarray(0, count * FRAME.length);
/** Runs of one feeding: the main thread has other sessions and requests. */
const RUNS_MAX = 4;
/** Time between two feedings, at least. */
const FEED_NS_MIN = 1_000_000n;

export interface Feeding {
  /**
   * Feeds the player with events within the limits, of which the one at `next` is not played yet. Returns when to call
   * this again: when there is more to feed, or when all has been played.
   */
  feed(next: number, limits: FeedLimits): bigint | undefined;
  /** Index after the last event that was fed. */
  end(): number;
  /** Continues with another event: the player has given back what it did not play. */
  moveTo(index: number): void;
}

export interface FeedLimits {
  /** Index after the last event that may be played. */
  playableEnd: number;
  /** No event is played that starts later. */
  lastStartNs: number;
  timeoutNs: bigint | null;
}

export interface FeedingOptions {
  window: EventBuffer;
  clock: ReplayClock;
  now: SteadyNow;
  stream: Pick<SessionStream, 'prepare'>;
  track: Pick<Track, 'feed'>;
}

export function createFeeding({ window, clock, now, stream, track }: FeedingOptions): Feeding {
  /** Index after the last event that was fed to the player. */
  let fedEnd = 0;

  function feed(next: number, { playableEnd, lastStartNs, timeoutNs }: FeedLimits): bigint | undefined {
    const untilNs = now() + FED_AHEAD_NS;
    for (let run = 0; run <= RUNS_MAX; run++) {
      // The first ones may be due already, and should not wait until many are written.
      const most = run === 0 ? FIRST_EVENTS : RUN_EVENTS;
      const left = Math.min(playableEnd - fedEnd, FED_MAX - (fedEnd - next), most);
      const page = left > 0 ? window.page(fedEnd) : undefined;
      if (!page) return againAt(next, undefined);
      const at = fedEnd - page.first;
      const dueCount = setDue(runOf(left), clock, { page, at, untilNs, lastStartNs });
      if (dueCount === 0) {
        const startNs = page.startNs[at]!;
        return againAt(next, startNs > lastStartNs ? undefined : clock.dueAt(startNs));
      }
      const { bytes, count } = stream.prepare({ page, at, frames: runOf(dueCount), timeoutNs });
      track.feed(bytes, runOf(count));
      fedEnd += count;
    }
    return now() + FEED_NS_MIN;
  }

  /** `dueNs` is the time of the next event to feed, unless it is not loaded or there is no room. */
  function againAt(next: number, dueNs: bigint | undefined): bigint | undefined {
    const dueOf = (index: number) => clock.dueAt(window.startNs(index)!);
    const isMost = fedEnd - next === FED_MAX;
    let againNs = fedEnd > next ? dueOf(isMost ? next + FED_MAX / 2 : fedEnd - 1) : undefined;
    if (dueNs !== undefined && !isMost) {
      const earlyNs = dueNs - FED_AHEAD_NS / 2n;
      if (againNs === undefined || earlyNs < againNs) againNs = earlyNs;
    }
    const soonestNs = now() + FEED_NS_MIN;
    return againNs === undefined || againNs > soonestNs ? againNs : soonestNs;
  }

  return {
    feed,
    end: () => fedEnd,
    moveTo(index) {
      fedEnd = index;
    },
  };
}
