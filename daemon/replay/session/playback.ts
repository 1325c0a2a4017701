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
  /** Projected index of the next event. All figures of a playback are those of the last `catchUp`. */
  next(): number;
  /** Position, which is never past an unplayed event, so that a pause at that moment loses no event. */
  positionNs(): number;
  /** How punctual the playback was; `starvations` counts the events that were due before they had been loaded. */
  punctuality(): { lateness: LatenessSummary; starvations: number };
  /** The stream of the session, for its clients. */
  readonly stream: SessionStream;
  /** Where the session pauses by itself; null if, as far as is known, the session plays to its end. */
  until(): Until | null;
  /** Sets where the session pauses by itself. A session that is at that place, or past it, plays on. */
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
  /** When the clock was or will be started, as a time of the steady clock; null while it stands still. */
  startsAtNs(): bigint | null;
  halt(): void;
  moveTo(positionNs: number, index: number): void;
  /** Moves to the end. The survey must be complete. */
  moveToEnd(): void;
  /** Finds a place, and may replace the plan's layout; returns null for the end. */
  find(target: SeekTarget): Promise<SeekResult | null>;
  /** Moves to a place that was found. */
  seek(place: SeekResult): void;
  /** Moves to the start of another round. */
  rewind(): Promise<void>;
  /**
   * Changes the latency and the gaps of all events except those due within `CHANGE_AHEAD_NS`. The position stays,
   * unless it lies in a gap that now ends before it.
   */
  changeLatency(change: LayoutChange): Promise<void>;
  /** Changes the speed; the position stays. */
  setSpeed(speedFactor: number): void;
  /** Must be called when the owner's `loop` has changed. */
  updateLoop(): void;
  /** Brings the figures and the stream up to date with the frames that were played. */
  catchUp(): void;
  /** Must be called when the plan's outline has changed. */
  takeOutline(): void;
  close(reason: EndReason): void;
}

/** The session that owns a playback. */
export interface PlaybackOwner extends StreamSource {
  /** The current settings. */
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
  /** Time from `start` to the start of the clock. */
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
  /** Index of the next event, and a position before that event that the session has reached. */
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
    // If the survey is not done yet, `takeOutline` calls this again.
    if (isOver && survey) {
      const dueNs = clock.computeDueNs(survey.endNs);
      if (dueNs > now()) alarm.set(dueNs);
      else owner.playedOut();
    }
  }

  function reportLoadFailure(error: unknown): void {
    // A failure of a command is reported to the client by that command.
    if (clock.running) owner.failed(error);
  }

  /** Takes a page that has arrived. If the page's first event was already due, the player has starved. */
  function takePage({ first, startNs }: PlanPage): void {
    if (!clock.running) return;
    catchUp();
    const isPlayed = startNs[0]! <= (pauseAtNs() ?? Infinity);
    if (isPlayed && feeding.end() === first && clock.computeDueNs(startNs[0]!) <= now()) starvations++;
    awaitNext();
  }

  function positionNs(): number {
    // A late pause is at the requested position, unless later events have been played by then.
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

  /** The position, up to date with the frames that were played. */
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
    // The stream goes direct before the next event is fed, so that the player writes that event too.
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
      // A seek to the end may have replaced the layout.
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
      // Events from here on must not be played with their old times, however long the plan takes.
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
  // An event that is not recorded any more must fail the seek before anything has moved.
  if (place) await plan.readPage(place.index, 1);
  return place;
}

/*
 * Finds where a playing session pauses by itself: at the end of the events that the transaction's caller waits for,
 * before events that are only written back.
 */

interface PausePlace {
  /** The requested pause; null if, as far as is known, the session plays to its end. */
  until(): Until | null;
  /** The position of the pause; null if there is no pause, or if its position is not known yet. */
  atNs(): number | null;
  /** Sets the requested pause. A session that is at that place, or past it, plays on. */
  aim(until: Until | null): void;
  /** Sets the same pause again, from the current position. */
  aimAgain(): void;
  /**
   * Waits for a move that replaces the layout. Until the move is done, the pause stays where the played layout has it.
   */
  followMove<Result>(moving: Promise<Result>): Promise<Result>;
  /** Adopts the plan's layout, whose ends may not be known yet. */
  takeLayout(): void;
  /** Takes note of a change of the plan's outline. */
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
   * The ends of the played layout. A change of the deadline moves no end, but the plan then surveys all events again.
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
 * How long before they are due events are fed to the player, and how many events are fed at most, because a command
 * takes the unplayed ones back. A session that plays slowly then needs a CPU only every quarter of a second.
 */
const FED_AHEAD_NS = 500_000_000n;
const FED_MAX = 8192;
const FIRST_EVENTS = 8;
/**
 * Number of events that are handed to the player at once. All feedings share the array, because only one feeding runs
 * at a time.
 */
const RUN_EVENTS = 512;
const runFrames = new BigInt64Array(RUN_EVENTS * FRAME.length);
const sliceRunFrames = (count: number) => runFrames.subarray(0, count * FRAME.length);
/** Maximum number of runs in one feeding, so that the main thread gets to other sessions and requests. */
const RUNS_MAX = 4;
/** Minimum time between two feedings. */
const FEED_NS_MIN = 1_000_000n;

interface Feeding {
  /**
   * Feeds the player with events within the limits; `next` is the first event that is not played yet. Returns when
   * `feed` must be called again: when there is more to feed, or when all fed events have been played.
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
      // The first events may be due already, so they are fed before many frames are written.
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
   * Computes when to feed again. `dueNs` is when the next event to feed is due; undefined if that event is not loaded
   * or may not be fed yet.
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

/* Finds the events of a session that are due next, and those that a change still moves. */

/**
 * A change of latency applies only to events that are due after this time from now; earlier events keep their schedule.
 */
const CHANGE_AHEAD_NS = 20_000_000n;

/** Finds the first event that a change of latency moves. If the clock is stopped, that is the next event. */
function findFirstToMove(window: EventBuffer, clock: ReplayClock, next: number, nowNs: bigint): number {
  let index = next;
  if (!clock.running) return index;
  for (let startNs = window.startNs(index); startNs !== undefined; startNs = window.startNs(++index))
    if (clock.computeDueNs(startNs) > nowNs + CHANGE_AHEAD_NS) break;
  return index;
}

/** Whether no event remains to be emitted at an index or after it. */
function isPlayedOut(window: EventBuffer, { survey, eventCount }: Outline, next: number): boolean {
  return window.isEnd(next) || (survey !== null && next >= eventCount);
}

/**
 * Returns the start of the next event or, after the last event, the end of the replay; undefined while neither is
 * known.
 */
function findBoundNs(window: EventBuffer, outline: Outline, next: number): number | undefined {
  const endNs = () => (isPlayedOut(window, outline, next) ? outline.survey?.endNs : undefined);
  return window.startNs(next) ?? endNs();
}

/**
 * Moves the clock back if a shortened gap ends before the position at which the change was requested, so that
 * the event after the gap, which is the first of the page, was due at the moment of the request.
 */
function stayBefore(clock: ReplayClock, askedAtNs: number, { startNs: [startNs] }: PlanPage): void {
  if (startNs === undefined || askedAtNs <= startNs) return;
  const atNs = clock.positionNs();
  // A pause in the meantime has already moved the position back to the event.
  if (atNs > startNs) clock.jump(atNs - BigInt(askedAtNs - startNs));
}

/**
 * Sets when the events from `at` on are due, and returns the number of these events: those that are due by `untilNs`
 * and start by `lastStartNs`, as many as fit into `frames`. Both limits are needed because, at a high speed, a later
 * start may be due at the same nanosecond.
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
