/** A replay session: one transaction, whose playback is controlled by commands that lead from state to state. */
import { stringify } from '../../base/exact_json.ts';
import type { Until } from '../../contract/replay_requests.ts';
import type { SeekTarget } from '../../contract/target.ts';
import { type Command, type State, transition } from '../../contract/transitions.ts';
import type { Track } from '../clock/player.ts';
import type { Scheduler } from '../clock/scheduler.ts';
import type { KeptSession } from '../kept/kept_session.ts';
import { restorePosition } from '../kept/restore_position.ts';
import type { SessionPlace } from '../kept/state_file.ts';
import type { LatencyChange } from '../plan/merge.ts';
import type { SeekResult } from '../plan/plan.ts';
import type { Planner, ReplayPlan } from '../plan/planner.ts';
import { createPlayback, type Playback } from './playback.ts';
import {
  type ComingChange,
  closedProblem,
  layoutOf,
  planRequestOf,
  type SessionChange,
  type SessionOptions,
  type SessionSettings,
  type SessionView,
  turnsUntilClosed,
  viewOf,
} from './session_view.ts';
import { createStream, type EndReason, overBy, type SessionStream, scheduledJson, steppedJson } from './stream.ts';

/** Range of frame ids reserved each time a session is opened: more than it ever uses. */
const LIFE_IDS = 2 ** 40;
/** Events of a timeline that are read at once. */
const TIMELINE_PAGE_EVENTS = 1024;

export class Session {
  readonly stream: SessionStream;
  /** The change that is being applied. */
  coming: ComingChange | undefined;
  /** When the last event ends if all are laid out with the latest settings, as they are in the next round. */
  layoutEndNs: number | undefined;
  #options: SessionOptions;
  #settings: SessionSettings;
  #plan: ReplayPlan;
  #playback: Playback;
  #pausePlace: PausePlace;
  #track: Track;
  /** Serializes the commands that have to wait for the plan. */
  #inTurn = turnsUntilClosed(() => this.#closed);
  #state: State = 'ready';
  #rounds = 0;
  /** Null until it is closed. */
  #closed: EndReason | null = null;
  #measure: Measure;
  /** Whether the last state frame contained the duration. */
  #isWholeTold: boolean;
  #failure: string | null = null;
  #createdAt: string;
  #updatedAt: string;

  constructor(options: SessionOptions, plan: ReplayPlan) {
    const { now, settings, scheduler, wallTime, keptTotal, leadNs, onPlayed } = options;
    this.#options = options;
    this.#settings = settings;
    this.#plan = plan;
    this.#isWholeTold = plan.outline.survey !== null;
    this.#measure = createMeasure(scheduler, options);
    this.#createdAt = this.#updatedAt = wallTime();
    const track = options.player.track(() => this.#playback.woken());
    this.#track = track;
    this.stream = createStream({
      describe: () => stringify(this.view()),
      over: () => overBy(this.#state, this.#failure),
      keptTotal,
      idBase: (options.life ?? 0) * LIFE_IDS,
      track,
      catchUp: () => this.#playback.catchUp(),
      watching: { now, alarm: scheduler.alarm, position: () => this.#moving() },
    });
    this.#pausePlace = createPausePlace({
      plan,
      isLooping: () => this.#settings.loop,
      positionNs: () => this.positionNs,
    });
    this.#playback = createPlayback({
      plan,
      now,
      scheduler,
      leadNs,
      onPlayed,
      stream: this.stream,
      track,
      settings: () => this.#settings,
      pauseAtNs: this.#pausePlace.atNs,
      onPauseDue: () => this.pause(),
      onEnd: () => this.#playedOut(),
      onFailure: (error) => this.#fail(error),
    });
  }

  get state(): State {
    return this.#state;
  }

  get eventCount(): number {
    return this.#plan.outline.eventCount;
  }

  get positionNs(): number {
    return this.place().positionNs;
  }

  /** All of it is of one moment: the place catches up with what was played, and nothing else does. */
  view(): SessionView {
    const kept = this.kept();
    const startsAtNs = this.#playback.startsAtNs();
    const until = this.#pausePlace.until();
    const lastEventId = this.stream.lastId;
    return viewOf(kept, { ...this.#playback.punctuality(), until, startsAtNs, lastEventId });
  }

  /** The data that restores the session in its current state. */
  kept(): KeptSession {
    return {
      ...this.place(),
      settings: this.#settings,
      state: this.#state,
      outline: this.#plan.outline,
      rounds: this.#rounds,
      failure: this.#failure,
      life: this.#options.life ?? 0,
      createdAt: this.#createdAt,
      updatedAt: this.#updatedAt,
    };
  }

  place(): SessionPlace {
    const { sessionId } = this.#options;
    this.#playback.catchUp();
    return { sessionId, eventIndex: this.#playback.next(), positionNs: this.#playback.positionNs() };
  }

  /** The position as JSON while it moves. */
  #moving(): string | null {
    if (this.#state !== 'playing') return null;
    const { eventIndex, positionNs } = this.place();
    const { lateness } = this.#playback.punctuality();
    return stringify({ position_ns: positionNs, event_index: eventIndex, lateness });
  }

  /** Restores the kept state. It must come before any command. */
  async comeBack(kept: KeptSession): Promise<void> {
    this.#isWholeTold = true; // No state frame is sent before the session is restored.
    this.#rounds = kept.rounds;
    this.#failure = kept.failure;
    this.#createdAt = kept.createdAt;
    this.#updatedAt = kept.updatedAt;
    this.#state = kept.state === 'playing' ? 'paused' : kept.state;
    const place = await restorePosition(kept, this.#plan);
    if (place) this.#playback.moveTo(place.positionNs, place.index);
    else this.#playback.moveToEnd();
    if (!place && this.#state !== 'stopped') this.#state = 'finished';
    this.#isWholeTold = this.#plan.outline.survey !== null;
  }

  /** Without `until`, a session that plays keeps the one that it has. */
  play(until?: Until | null): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#enters('play') === this.#state) {
        const before = this.#pausePlace.until();
        if (until !== undefined) this.#pausePlace.aim(until);
        return this.#pausePlace.until() === before ? undefined : this.#enter('playing');
      }
      if (this.#state === 'finished') await this.#pausePlace.movedBy(this.#playback.rewind());
      // The first events are loaded before the clock runs.
      await this.#playback.load();
      await this.#measure.beforeAdmission(this.#plan.outline.survey !== null);
      if (this.#plan.outline.latency.length > 1)
        this.layoutEndNs ??= await this.#measure.end((signal) => this.#plan.endWith({}, signal));
      const state = this.#enters('play');
      this.#options.admit?.();
      this.#pausePlace.aim(until ?? null);
      this.#playback.start();
      this.#enter(state);
    });
  }

  pause(): void {
    const state = this.#enters('pause');
    if (this.#state === 'paused') return;
    this.#playback.halt();
    this.#enter(state);
  }

  seek(target: SeekTarget): Promise<void> {
    return this.#inTurn(async () => {
      this.#enters('seek');
      const place = await this.#pausePlace.movedBy(this.#placeOf(target)).catch((error) => {
        // What was fed meanwhile may start after a place that is known by now.
        if (this.#state === 'playing' && !this.#closed) this.#tell();
        throw error;
      });
      this.#enters('seek');
      if (!place) return this.#finish();
      this.#playback.halt();
      this.#playback.seek(place);
      if (this.#state === 'playing') await this.#playback.load().catch((error) => this.#fail(error));
      const state = this.#enters('seek');
      this.#pausePlace.aimAgain();
      if (state === 'playing') this.#playback.start();
      this.#enter(state);
    });
  }

  async #placeOf(target: SeekTarget): Promise<SeekResult | null> {
    const place = await this.#plan.place(target);
    // An event that is not recorded any more must fail the seek before anything has moved.
    if (place) await this.#plan.page(place.index, 1);
    return place;
  }

  /** Emits `count` events at once, whatever their time, and returns them as JSON; a negative count moves back. */
  step(count: number): Promise<string[]> {
    const command = count > 0 ? 'step' : 'step_back';
    return this.#inTurn(async () => {
      this.#enters(command);
      // All events are loaded before the first is emitted: a step is done completely or not at all.
      const next = this.#playback.next();
      const from = count > 0 ? next : Math.max(next + count, 0);
      const page = await this.#plan.page(from, Math.max(count, 1));
      const state = this.#enters(command);
      const events = count > 0 ? steppedJson(page, this.#options.now(), this.#settings.timeoutNs) : [];
      for (const json of events) this.stream.publish('event', json, 1);
      const target = from + events.length;
      const at = Math.max(events.length - 1, 0);
      if (target !== this.#playback.next()) this.#playback.moveTo(page.startNs[at]!, target);
      this.#enter(state);
      return events;
    });
  }

  /** The current schedule from an index on: pages of events as JSON objects. */
  timeline(index: number, limit: number): AsyncGenerator<string[], void> {
    return timelineOf(this.#plan, { index, limit }, this.#settings.timeoutNs);
  }

  stop(): void {
    const state = this.#enters('stop');
    if (this.#state === 'stopped') return;
    this.#playback.halt();
    this.#enter(state);
    this.stream.end('stopped');
  }

  /** Changes settings in any state but stopped; the position stays. */
  change(change: SessionChange): Promise<void> {
    return this.#inTurn(async () => {
      this.#enters('change');
      const isPlaying = this.#state === 'playing';
      const coming = isPlaying ? await this.#admitted(change) : change;
      // Until the change is applied, the admission of other sessions counts the rate after it.
      this.coming = coming;
      try {
        await this.#changePlan(coming);
      } finally {
        this.coming = undefined;
      }
      const state = this.#enters('change');
      const { speedFactor, loop } = change;
      if (speedFactor !== undefined) {
        this.#settings = { ...this.#settings, speedFactor };
        this.#playback.setSpeed(speedFactor);
      }
      if (loop !== undefined && loop !== this.#settings.loop) {
        this.#settings = { ...this.#settings, loop };
        this.#pausePlace.aimAgain();
      }
      this.#enter(state);
    });
  }

  /** Throws a Problem when the session, changed so, would exceed the capacity. */
  async #admitted(change: SessionChange): Promise<ComingChange> {
    const layout = layoutOf(this.#settings, change);
    const endNs = layout && (await this.#measure.end((signal) => this.#plan.endWith(layout, signal)));
    const coming = { ...change, endNs };
    if (endNs === undefined) await this.#measure.beforeAdmission(this.#plan.outline.survey !== null, coming);
    this.#options.admit?.(coming);
    return coming;
  }

  /** Makes the part of a change that the plan has to know. */
  async #changePlan(change: ComingChange): Promise<void> {
    const layout = layoutOf(this.#settings, change);
    if (layout) {
      await this.#playback.changeLatency(layout, this.#pausePlace.laidOut);
      this.#settings = { ...this.#settings, ...layout };
      this.layoutEndNs = change.endNs;
    }
    const { timeoutNs } = change;
    if (timeoutNs === undefined || timeoutNs === this.#settings.timeoutNs) return;
    await this.#plan.changeTimeout(timeoutNs === null ? null : Number(timeoutNs));
    // Frames that were prepared say what was after the old deadline.
    this.#playback.interrupt();
    this.#settings = { ...this.#settings, timeoutNs };
    this.#playback.resume();
  }

  /** Called when the plan's outline has changed. */
  outlined(): void {
    if (this.#plan.outline.survey) this.#measure.known();
    this.#pausePlace.outlined();
    this.#playback.outlined();
    // Most commands are answered before the duration is known, so a state frame announces it. A stopped session sends
    // no frame after its `end` frame.
    if (!this.#isWholeTold && this.#plan.outline.survey && this.#state !== 'stopped') this.#tell();
    this.#options.onChange?.();
  }

  close(reason: EndReason): void {
    if (this.#closed) return;
    this.#closed = reason;
    this.#playback.halt();
    this.#plan.close();
    this.stream.close(reason);
    this.#track.close();
  }

  /** It returns the state that a command leads to; throws a Problem when the command is refused. */
  #enters(command: Command): State {
    if (this.#closed) throw closedProblem(this.#closed);
    return transition(this.#state, command);
  }

  #enter(state: State): void {
    this.#state = state;
    if (state !== 'playing') this.#pausePlace.clear();
    this.#updatedAt = this.#options.wallTime();
    this.#tell();
    this.#options.onChange?.();
  }

  #tell(): void {
    this.#isWholeTold = this.#plan.outline.survey !== null;
    this.#playback.interrupt();
    this.stream.publish('state', stringify(this.view()));
    this.stream.flush();
    this.#playback.resume();
  }

  /** Called when the end of the replay is due. */
  #playedOut(): void {
    if (this.#settings.loop) this.#beginAgain();
    else this.#finish();
  }

  #finish(): void {
    const first = this.#state !== 'finished';
    this.#playback.halt();
    this.#playback.moveToEnd();
    this.#enter('finished');
    if (first) this.stream.end('finished');
  }

  /** Starts the next round of a looping session. */
  #beginAgain(): void {
    this.#rounds++;
    this.#playback.halt();
    this.#inTurn(async () => {
      // A seek that ran before this has moved the session elsewhere.
      if (this.#state !== 'playing' || this.#playback.isRunning()) return;
      await this.#pausePlace.movedBy(this.#playback.rewind());
      await this.#playback.load();
      if (this.#state !== 'playing' || this.#closed) return;
      this.#playback.start();
      this.#enter('playing');
    }).catch((error) => this.#fail(error));
  }

  /** Stops the session after an error that belongs to no command: only the session can report it. */
  #fail(error: unknown): void {
    if (this.#state === 'stopped') return;
    this.#failure = error instanceof Error ? error.message : String(error);
    this.#playback.halt();
    this.#enter('stopped');
    this.stream.end('failed');
  }
}

/** Lists the schedule of a session without playing it: it yields pages of events as JSON objects. */
async function* timelineOf(
  plan: Pick<ReplayPlan, 'page'>,
  { index, limit }: { index: number; limit: number },
  timeoutNs: bigint | null,
): AsyncGenerator<string[], void> {
  for (let [from, left] = [index, limit]; left > 0; ) {
    const page = await plan.page(from, Math.min(left, TIMELINE_PAGE_EVENTS));
    yield scheduledJson(page, timeoutNs);
    if (page.isLast) return;
    from += page.count;
    left -= page.count;
  }
}

/*
 * Where a session that plays pauses by itself: at the end of what its caller waits for, before what is written back.
 */

interface PausePlace {
  /** What was asked for; null if the session plays to its end, as far as that is known. */
  until(): Until | null;
  /** The position; null if there is none, or while it is not known. */
  atNs(): number | null;
  /** Takes what is asked for. A session that is at the place or past it plays on. */
  aim(until: Until | null): void;
  /** Aims again from another position. */
  aimAgain(): void;
  clear(): void;
  /** Waits for what replaces the layout; until then the place is that of the layout that is played. */
  movedBy<Result>(moving: Promise<Result>): Promise<Result>;
  /** Takes the plan's layout, whose ends may not be known yet. */
  laidOut(): void;
  /** Takes note of a change of the plan's outline. */
  outlined(): void;
}

interface PausePlaceOptions {
  plan: Pick<ReplayPlan, 'outline'>;
  isLooping: () => boolean;
  /** Where the session is, with all that was played. */
  positionNs: () => number;
}

function createPausePlace({ plan, isLooping, positionNs }: PausePlaceOptions): PausePlace {
  let asked: Until | null = null;
  /** Where the session was then, while it is not known whether that is past the place. */
  let askedAtNs: number | null = null;
  /** The ends of the layout that is played. A change of the deadline moves neither, but the plan looks for it again. */
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

  function laidOut(): void {
    ends = plan.outline.survey;
    decide();
  }

  function outlined(): void {
    if (plan.outline.survey && !isMoving) laidOut();
  }

  return {
    until,
    aim,
    laidOut,
    outlined,
    atNs: () => (ends && until() ? ends.durationNs : null),
    aimAgain: () => aim(asked),
    clear() {
      asked = null;
    },
    async movedBy(moving) {
      isMoving = true;
      try {
        const moved = await moving;
        laidOut();
        return moved;
      } finally {
        isMoving = false;
        outlined();
      }
    },
  };
}

/* Delays admission until the duration of a session is known, which takes one pass through its plan. */

/** The longest wait for the duration. A plan of a million events is processed in a third of that. */
const PATIENCE_NS = 1_000_000_000n;

interface Measure {
  /** Reports that the duration is known. */
  known(): void;
  /** If the session might exceed the capacity, waits for a limited time until the duration is known. */
  beforeAdmission(isKnown: boolean, change?: ComingChange): Promise<void>;
  /** Waits for the end of a layout for a limited time; undefined if that was too short: then `signal` ends the work. */
  end(compute: (signal: AbortSignal) => Promise<number>): Promise<number | undefined>;
}

function createMeasure(scheduler: Scheduler, { now, admit }: Pick<SessionOptions, 'now' | 'admit'>): Measure {
  let known = () => {};
  let giveUp = () => {};
  const patience = scheduler.alarm(() => giveUp());

  /** Resolves with the work, and when that takes too long. */
  async function patiently(work: Promise<unknown>): Promise<void> {
    const tooLong = new Promise<void>((resolve) => {
      giveUp = resolve;
      patience.set(now() + PATIENCE_NS);
    });
    try {
      await Promise.race([work, tooLong]);
    } finally {
      patience.clear();
    }
  }

  return {
    known: () => known(),
    async beforeAdmission(isKnown, change) {
      if (isKnown) return;
      try {
        admit?.(change);
      } catch {
        const isToldOf = new Promise<void>((resolve) => {
          known = resolve;
        });
        await patiently(isToldOf);
      }
    },
    async end(compute) {
      const givingUp = new AbortController();
      let endNs: number | undefined;
      const work = compute(givingUp.signal).then((ns) => {
        endNs = ns;
      });
      // After it was given up, its error has no other place to go.
      work.catch(() => {});
      try {
        await patiently(work);
        return endNs;
      } finally {
        givingUp.abort();
      }
    },
  };
}

/* Opens a session for a transaction, new or from its kept state. */

/** Rejects with a Problem when the transaction cannot be played. */
export async function openSession(options: SessionOptions, planner: Planner): Promise<Session> {
  const { extraLatencyNs, only } = options.settings;
  return opened(options, planner, [{ fromIndex: 0, extraLatencyNs, only }]);
}

/** Opens a kept session. If it was playing, it is paused. Rejects as `openSession` does. */
export async function reopenSession(
  options: Omit<SessionOptions, 'sessionId' | 'settings'>,
  planner: Planner,
  kept: KeptSession,
): Promise<Session> {
  const { sessionId, settings, outline, life } = kept;
  const again = { ...options, sessionId, settings, life: life + 1 };
  const session = await opened(again, planner, outline.latency);
  try {
    await session.comeBack(kept);
    return session;
  } catch (error) {
    session.close('failed');
    throw error;
  }
}

async function opened(options: SessionOptions, planner: Planner, latency: readonly LatencyChange[]): Promise<Session> {
  let session: Session | undefined;
  const plan = await planner.open(planRequestOf(options.settings, latency), () => session?.outlined());
  session = new Session(options, plan);
  return session;
}
