/**
 * Plays the events of a plan by the clock of its session: loads events ahead, prepares their frames, has the player
 * send them when they are due, and counts how often an event was due before it had been loaded. The session decides
 * what happens at the end or on a failure.
 *
 * Frames are either sent by the player or added in `runExclusively`, whose work runs between two played events.
 *
 *   played ......| next ..... fed to the player .....| fedEnd ... loaded ...| not loaded
 */
import type { Until } from '../../contract/replay_requests.ts';
import type { SeekTarget } from '../../contract/target.ts';
import { createClock, type ReplayClock, type SteadyNow } from '../clock/clock.ts';
import { createLateness, type LatenessSummary } from '../clock/lateness.ts';
import { FRAME, type Player, type Track } from '../clock/player.ts';
import type { Scheduler } from '../clock/scheduler.ts';
import type { LayoutChange } from '../plan/merge.ts';
import type { Outline, PlanPage, SeekResult } from '../plan/plan.ts';
import type { ReplayPlan } from '../plan/planner.ts';
import { createEventBuffer, type EventBuffer } from './event_buffer.ts';
import type { SessionSettings } from './session_view.ts';
import {
  type AddedFrames,
  createStream,
  type EndReason,
  type PlayedStream,
  type SessionStream,
  type StreamOptions,
  type StreamSource,
} from './stream.ts';

export interface Playback {
  isRunning(): boolean;
  /** Projected index of the next event. All values of a playback are as of the last `catchUp`. */
  next(): number;
  /** The position. It is never past an unplayed event, so that a pause loses no event. */
  positionNs(): number;
  /** Statistics of lateness. `starvations` counts the events that were due before they were loaded. */
  punctuality(): { lateness: LatenessSummary; starvations: number };
  /** The stream of the session, for its clients. */
  readonly stream: SessionStream;
  /** Where the session pauses by itself; null if, as far as is known, the session plays to its end. */
  until(): Until | null;
  /** Sets where the session pauses by itself. A session at or past that position continues to play. */
  pauseAt(until: Until | null): void;
  /** Resolves when the next event is loaded, or known not to exist. */
  load(): Promise<void>;
  /**
   * Runs work between two played events: all played frames are in the stream, and nothing is played until the work
   * returns. Only this work may add frames or change what is due next. Calls may be nested.
   */
  runExclusively(work: (frames: AddedFrames) => void): void;
  /** Starts the clock `leadNs` from now. */
  start(): void;
  /** When the clock was or will be started, as a time of the steady clock; null while the clock is stopped. */
  startsAtNs(): bigint | null;
  halt(): void;
  moveTo(positionNs: number, index: number): void;
  /** Moves to the end. The survey must be complete. */
  moveToEnd(): void;
  /** Finds the place of a seek target, and may replace the plan's layout; returns null for a target past the end. */
  find(target: SeekTarget): Promise<SeekResult | null>;
  /** Moves to a place that `find` has returned. */
  seek(place: SeekResult): void;
  /** Moves to the start of another round. */
  rewind(): Promise<void>;
  /**
   * Changes the latency and the gaps of all events except those due within `CHANGE_AHEAD_NS`. The position stays,
   * unless a shortened gap now ends before it.
   */
  changeLatency(change: LayoutChange): Promise<void>;
  /** Changes the speed; the position stays. */
  setSpeed(speedFactor: number): void;
  /** Must be called when the owner's `loop` has changed. */
  updateLoop(): void;
  /** Brings the values and the stream up to date with the frames that were played. */
  catchUp(): void;
  /** Must be called when the plan's outline has changed. */
  takeOutline(): void;
  close(reason: EndReason): void;
}

/** The session that owns a playback. */
export interface PlaybackOwner extends StreamSource {
  settings(): Pick<SessionSettings, 'speedFactor' | 'timeoutNs' | 'loop'>;
  /** Called when a pause is due and every event that starts by then was played. */
  pauseDue(): void;
  /** Called when the end of the replay is due. */
  playedOut(): void;
  /** Called when the replay is unable to go on. */
  failed(error: unknown): void;
}

export interface PlaybackOptions extends Pick<StreamOptions, 'keptTotal' | 'idBase'> {
  plan: ReplayPlan;
  now: SteadyNow;
  scheduler: Scheduler;
  player: Player;
  owner: PlaybackOwner;
  /** Time from the call of `start` until the clock starts. */
  leadNs?: bigint | undefined;
  onPlayed?: ((latenessNs: number) => void) | undefined;
}

export function createPlayback(options: PlaybackOptions): Playback {
  const { plan, now, scheduler, player, owner, leadNs = 0n } = options;
  const track = player.track(ring);
  const stream = createStream({ ...options, source: owner, track, catchUp, alarm: scheduler.createAlarm });
  const pausePlace = createPausePlace({ plan, isLooping: () => owner.settings().loop, positionNs: readCurrentNs });
  const pauseAtNs = pausePlace.atNs;
  const speedFactor = () => owner.settings().speedFactor;
  const window = createEventBuffer({ plan, speedFactor, onPage: takePage, onFailure: reportLoadFailure });
  const clock = createClock(now, speedFactor());
  const feeding = createFeeding({ window, clock, now, stream, track });
  const lateness = createLateness(options.onPlayed);
  const alarm = scheduler.createAlarm(ring);
  let startsAtNs: bigint | null = null;
  /** Index of the next event, and the position that the session has reached before that event. */
  let [next, passedNs] = [0, 0];
  let starvations = 0;
  /** Events from this index on are being laid out again, and are not played until that is done. */
  let playableEnd = Infinity;
  /** Set while `runExclusively` runs. */
  let addedFrames: AddedFrames | undefined;

  /**
   * Called by the alarm, and when the player has played events that viewers wait for. The clock may be halted by then.
   */
  function ring(): void {
    try {
      catchUp();
      stream.flush();
      // The player may have woken this thread before a command or the end halted the clock.
      if (clock.running) awaitNext();
    } catch (error) {
      owner.failed(error);
    }
  }

  function catchUp(): void {
    const count = track.reportPlayed(lateness.record);
    if (count === 0) return;
    stream.commitPlayed(count);
    passedNs = window.startNs(next + count - 1)!;
    next += count;
    window.moveTo(next);
  }

  function awaitNext(): void {
    if (next >= playableEnd) return;
    const startNs = window.startNs(next);
    const { survey } = plan.outline;
    const isOver = isPlayedOut(window, plan.outline, next);
    const atNs = pauseAtNs();
    const pauseDueNs = atNs === null ? null : clock.computeDueNs(atNs);
    if (pauseDueNs !== null && (isOver || startNs! > atNs!)) {
      if (pauseDueNs > now()) alarm.set(pauseDueNs);
      else owner.pauseDue();
      return;
    }
    if (startNs !== undefined) {
      const { timeoutNs } = owner.settings();
      const againNs = feeding.feed(next, { playableEnd, lastStartNs: atNs ?? Infinity, timeoutNs });
      if (againNs !== undefined) alarm.set(againNs);
      return;
    }
    // If the survey is not done yet, `takeOutline` calls `awaitNext` again.
    if (isOver && survey) {
      const dueNs = clock.computeDueNs(survey.endNs);
      if (dueNs > now()) alarm.set(dueNs);
      else owner.playedOut();
    }
  }

  function reportLoadFailure(error: unknown): void {
    // If the clock is stopped, the command that loads events reports the failure to its client.
    if (clock.running) owner.failed(error);
  }

  /** Takes a page that has arrived. If the page's first event is already due, counts a starvation. */
  function takePage({ first, startNs }: PlanPage): void {
    if (!clock.running) return;
    catchUp();
    const isPlayed = startNs[0]! <= (pauseAtNs() ?? Infinity);
    if (isPlayed && feeding.end() === first && clock.computeDueNs(startNs[0]!) <= now()) starvations++;
    awaitNext();
  }

  function positionNs(): number {
    // Even a late pause is at the requested position, except if later events were already played.
    const pauseNs = Math.max(pauseAtNs() ?? Infinity, passedNs);
    // While the next event is being laid out again, the position stays where it was.
    const boundNs = findBoundNs(window, plan.outline, next) ?? passedNs;
    passedNs = Math.min(Number(clock.positionNs()), boundNs, pauseNs);
    return passedNs;
  }

  function moveTo(positionNs: number, index: number): void {
    clock.jump(BigInt(positionNs));
    next = index;
    feeding.moveTo(index);
    passedNs = positionNs;
    window.moveTo(index);
  }

  /** Returns the position, up to date with the frames that were played. */
  function readCurrentNs(): number {
    catchUp();
    return positionNs();
  }

  function runExclusively(work: (frames: AddedFrames) => void): void {
    if (addedFrames) {
      work(addedFrames);
      return;
    }
    track.takeBack();
    readCurrentNs();
    addedFrames = stream.recall();
    feeding.moveTo(next);
    try {
      work(addedFrames);
    } finally {
      addedFrames = undefined;
      stream.flush();
      playOn();
    }
  }

  function playOn(): void {
    if (!clock.running) return;
    // `goDirect` comes before the next event is fed, so that the player also writes that event to the sockets.
    stream.goDirect();
    awaitNext();
  }

  return {
    positionNs,
    catchUp,
    runExclusively,
    moveTo,
    stream,
    until: pausePlace.until,
    pauseAt: pausePlace.aim,
    isRunning: () => clock.running,
    next: () => next,
    punctuality: () => ({ lateness: lateness.summary(), starvations }),
    async load() {
      window.moveTo(next);
      await window.waitUntilReady(next);
    },
    start() {
      runExclusively(() => {
        startsAtNs = now() + leadNs;
        clock.play(startsAtNs);
      });
    },
    startsAtNs: () => startsAtNs,
    halt() {
      runExclusively(() => {
        const atNs = positionNs();
        alarm.clear();
        startsAtNs = null;
        clock.pause();
        clock.jump(BigInt(atNs));
      });
    },
    moveToEnd() {
      const { eventCount, survey } = plan.outline;
      // A seek to the end may have replaced the layout, so all loaded events are dropped.
      window.forget(0);
      moveTo(survey!.endNs, eventCount);
    },
    find(target) {
      return pausePlace.followMove(findPlace(plan, target));
    },
    seek(place) {
      window.forget(0);
      moveTo(place.positionNs, place.index);
      pausePlace.aimAgain();
    },
    async rewind() {
      const start = await pausePlace.followMove(plan.place({ event_index: 0n }));
      window.forget(0);
      moveTo(start!.positionNs, start!.index);
      lateness.reset();
    },
    async changeLatency(change) {
      let askedAtNs = 0;
      // Events from `playableEnd` on must not be played with their old times, however long the plan takes.
      runExclusively(() => {
        askedAtNs = positionNs();
        playableEnd = findFirstToMove(window, clock, next, now());
      });
      const from = playableEnd;
      try {
        await plan.changeLatency(from, change);
        pausePlace.takeLayout();
        window.forget(from);
        const page = await plan.readPage(from, 1);
        stayBefore(clock, askedAtNs, page);
      } finally {
        playableEnd = Infinity;
        playOn();
      }
      window.moveTo(next);
    },
    setSpeed(speedFactor) {
      runExclusively(() => {
        const atNs = positionNs();
        clock.setSpeed(speedFactor);
        // An overdue event becomes due now: the new speed would otherwise change how late it is.
        clock.jump(BigInt(atNs));
      });
    },
    updateLoop: pausePlace.aimAgain,
    takeOutline() {
      pausePlace.takeOutline();
      if (clock.running) awaitNext();
    },
    close(reason) {
      stream.close(reason);
      track.close();
    },
  };
}

async function findPlace(plan: ReplayPlan, target: SeekTarget): Promise<SeekResult | null> {
  const place = await plan.place(target);
  // If the event is no longer recorded, the seek must fail before anything has moved.
  if (place) await plan.readPage(place.index, 1);
  return place;
}

/*
 * Computes where a playing session pauses by itself: at the end of the own events, for which the transaction's caller
 * waits. Only write-back events follow that position.
 */

interface PausePlace {
  /** The requested pause; null if, as far as is known, the session plays to its end. */
  until(): Until | null;
  /** The position of the pause; null if there is no pause, or if its position is not known yet. */
  atNs(): number | null;
  /** Sets the requested pause. A session at or past that position continues to play. */
  aim(until: Until | null): void;
  /** Sets the same pause again, from the current position. */
  aimAgain(): void;
  /**
   * Waits for a move that replaces the layout. Until the move is done, the pause follows the layout that is playing.
   */
  followMove<Result>(moving: Promise<Result>): Promise<Result>;
  /** Adopts the plan's layout, even if its survey is not done yet. */
  takeLayout(): void;
  /** Must be called when the plan's outline may have changed. */
  takeOutline(): void;
}

interface PausePlaceOptions {
  plan: Pick<ReplayPlan, 'outline'>;
  isLooping: () => boolean;
  /** Returns the position of the session, up to date with the frames that were played. */
  positionNs: () => number;
}

function createPausePlace({ plan, isLooping, positionNs }: PausePlaceOptions): PausePlace {
  let asked: Until | null = null;
  /**
   * Position of the session when the pause was requested, kept until it is known whether that position is past the
   * pause.
   */
  let askedAtNs: number | null = null;
  /**
   * The survey of the layout that is playing. A change of the deadline moves no event, so this survey still applies
   * while the plan surveys all events again.
   */
  let ends = plan.outline.survey;
  let isMoving = false;

  function until(): Until | null {
    return isLooping() || (ends && ends.durationNs >= ends.endNs) ? null : asked;
  }

  function decide(): void {
    if (!ends || askedAtNs === null) return;
    if (askedAtNs >= ends.durationNs) asked = null;
    askedAtNs = null;
  }

  function aim(wanted: Until | null): void {
    asked = wanted;
    askedAtNs = positionNs();
    decide();
  }

  function takeLayout(): void {
    ends = plan.outline.survey;
    decide();
  }

  function takeOutline(): void {
    if (plan.outline.survey && !isMoving) takeLayout();
  }

  return {
    until,
    aim,
    takeLayout,
    takeOutline,
    atNs: () => (ends && until() ? ends.durationNs : null),
    aimAgain: () => aim(asked),
    async followMove(moving) {
      isMoving = true;
      try {
        const moved = await moving;
        takeLayout();
        return moved;
      } finally {
        isMoving = false;
        takeOutline();
      }
    },
  };
}

/* Prepares the frames of the next events and feeds them to the player ahead of their time. */

/**
 * Maximum time by which events are fed to the player ahead of their deadline, and maximum number of fed events. The
 * number is limited because a command takes all unplayed events back. Feeding so far ahead lets a slow session use a
 * CPU only every quarter of a second.
 */
const FED_AHEAD_NS = 500_000_000n;
const FED_MAX = 8192;
const FIRST_EVENTS = 8;
/**
 * Number of events that are handed to the player at once. All feedings share `runFrames`, because only one feeding runs
 * at a time.
 */
const RUN_EVENTS = 512;
const runFrames = new BigInt64Array(RUN_EVENTS * FRAME.length);
const sliceRunFrames = (count: number) => runFrames.subarray(0, count * FRAME.length);
/** Maximum number of runs in one feeding, so that the main thread also serves other sessions and requests. */
const RUNS_MAX = 4;
/** Minimum time between two feedings. */
const FEED_NS_MIN = 1_000_000n;

interface Feeding {
  /**
   * Feeds the player with events within the limits; `next` is the first event that is not played yet. Returns the time
   * at which `feed` must be called again; undefined if all fed events were played and the next event is not loaded or
   * may not be fed yet.
   */
  feed(next: number, limits: FeedLimits): bigint | undefined;
  /** Index after the last event that was fed. */
  end(): number;
  /** Continues at another event, after the player has given back the frames that it did not play. */
  moveTo(index: number): void;
}

interface FeedLimits {
  /** Index after the last event that may be played. */
  playableEnd: number;
  /** Latest start of an event that may be played. */
  lastStartNs: number;
  timeoutNs: bigint | null;
}

interface FeedingOptions {
  window: EventBuffer;
  clock: ReplayClock;
  now: SteadyNow;
  stream: Pick<PlayedStream, 'prepare'>;
  track: Pick<Track, 'feed'>;
}

function createFeeding({ window, clock, now, stream, track }: FeedingOptions): Feeding {
  /** Index after the last event that was fed to the player. */
  let fedEnd = 0;

  function feed(next: number, { playableEnd, lastStartNs, timeoutNs }: FeedLimits): bigint | undefined {
    const untilNs = now() + FED_AHEAD_NS;
    for (let run = 0; run <= RUNS_MAX; run++) {
      // The first run is short: its events may already be due, and must not wait until many frames are written.
      const most = run === 0 ? FIRST_EVENTS : RUN_EVENTS;
      const left = Math.min(playableEnd - fedEnd, FED_MAX - (fedEnd - next), most);
      const page = left > 0 ? window.page(fedEnd) : undefined;
      if (!page) return computeNextFeedNs(next, undefined);
      const at = fedEnd - page.first;
      const dueCount = setDue(sliceRunFrames(left), clock, { page, at, untilNs, lastStartNs });
      if (dueCount === 0) {
        const startNs = page.startNs[at]!;
        return computeNextFeedNs(next, startNs > lastStartNs ? undefined : clock.computeDueNs(startNs));
      }
      const { bytes, count } = stream.prepare({ page, at, frames: sliceRunFrames(dueCount), timeoutNs });
      track.feed(bytes, sliceRunFrames(count));
      fedEnd += count;
    }
    return now() + FEED_NS_MIN;
  }

  /**
   * Computes when to feed again. `dueNs` is the deadline of the next event to feed; undefined if that event is not
   * loaded or may not be fed yet.
   */
  function computeNextFeedNs(next: number, dueNs: bigint | undefined): bigint | undefined {
    const computeEventDueNs = (index: number) => clock.computeDueNs(window.startNs(index)!);
    const isMost = fedEnd - next === FED_MAX;
    let againNs = fedEnd > next ? computeEventDueNs(isMost ? next + FED_MAX / 2 : fedEnd - 1) : undefined;
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

/* Finds the events that are due next, and the events that a change of latency moves. */

/** A change of latency applies only to events that are due later than this time from now. */
const CHANGE_AHEAD_NS = 20_000_000n;

/** Finds the first event that a change of latency moves. If the clock is stopped, that is the next event. */
function findFirstToMove(window: EventBuffer, clock: ReplayClock, next: number, nowNs: bigint): number {
  let index = next;
  if (!clock.running) return index;
  for (let startNs = window.startNs(index); startNs !== undefined; startNs = window.startNs(++index))
    if (clock.computeDueNs(startNs) > nowNs + CHANGE_AHEAD_NS) break;
  return index;
}

/** Whether no event is left to play from index `next` on. */
function isPlayedOut(window: EventBuffer, { survey, eventCount }: Outline, next: number): boolean {
  return window.isEnd(next) || (survey !== null && next >= eventCount);
}

/**
 * Returns the start of the next event or, after the last event, the end of the replay; undefined if that time is not
 * known yet.
 */
function findBoundNs(window: EventBuffer, outline: Outline, next: number): number | undefined {
  const endNs = () => (isPlayedOut(window, outline, next) ? outline.survey?.endNs : undefined);
  return window.startNs(next) ?? endNs();
}

/**
 * Moves the clock back if a shortened gap now ends before `askedAtNs`, the position at which the change was requested.
 * The event after the gap, the first of the page, then became due at the moment of the request.
 */
function stayBefore(clock: ReplayClock, askedAtNs: number, { startNs: [startNs] }: PlanPage): void {
  if (startNs === undefined || askedAtNs <= startNs) return;
  const atNs = clock.positionNs();
  // A pause in the meantime has already moved the position back to the event.
  if (atNs > startNs) clock.jump(atNs - BigInt(askedAtNs - startNs));
}

/**
 * Stores the deadlines of events from `at` on in `frames`, and returns how many. Stops when `frames` is full, or at an
 * event that is due after `untilNs` or starts after `lastStartNs`. Both limits are needed because, at a high speed, two
 * different starts may have the same deadline.
 */
function setDue(
  frames: BigInt64Array,
  clock: ReplayClock,
  { page, at, untilNs, lastStartNs }: { page: PlanPage; at: number; untilNs: bigint; lastStartNs: number },
): number {
  const most = Math.min(page.count - at, frames.length / FRAME.length);
  for (let i = 0; i < most; i++) {
    const startNs = page.startNs[at + i]!;
    const dueNs = clock.computeDueNs(startNs);
    if (dueNs > untilNs || startNs > lastStartNs) return i;
    frames[i * FRAME.length + FRAME.due] = dueNs;
  }
  return most;
}
