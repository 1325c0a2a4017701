/** A replay session plays one transaction. Commands control the playback and change the session's state. */
import { stringify } from '../../base/exact_json.ts';
import type { Until } from '../../contract/replay_requests.ts';
import type { SeekTarget } from '../../contract/target.ts';
import { type Command, computeNextState, type SessionState } from '../../contract/transitions.ts';
import type { Scheduler } from '../clock/scheduler.ts';
import type { KeptSession } from '../persistence/kept_session.ts';
import { restorePosition } from '../persistence/restore_position.ts';
import type { SessionPlace } from '../persistence/state_file.ts';
import type { LatencyChange } from '../plan/merge.ts';
import type { Planner, ReplayPlan } from '../plan/planner.ts';
import { createPlayback, type Playback } from './playback.ts';
import {
  buildPlanRequest,
  buildSessionView,
  type ComingChange,
  createClosableQueue,
  createClosedProblem,
  findLayoutChange,
  type SessionChange,
  type SessionOptions,
  type SessionSettings,
  type SessionView,
} from './session_view.ts';
import {
  type EndReason,
  encodeScheduledEvents,
  encodeSteppedEvents,
  findEndReason,
  type SessionStream,
} from './stream.ts';

/** Number of frame ids reserved each time a session is opened, which is more than a session ever uses. */
const LIFE_IDS = 2 ** 40;
/** Number of events of a timeline that are read at once. */
const TIMELINE_PAGE_EVENTS = 1024;

export class Session {
  /** The change that is being applied. */
  coming: ComingChange | undefined;
  /**
   * When the last event would end if all events were laid out with the latest settings, as in the next round. Undefined
   * if that was not computed.
   */
  layoutEndNs: number | undefined;
  #options: SessionOptions;
  #settings: SessionSettings;
  #plan: ReplayPlan;
  #playback: Playback;
  /** Serializes the commands that have to wait for the plan. */
  #runInTurn = createClosableQueue(() => this.#closed);
  #state: SessionState = 'ready';
  #rounds = 0;
  /** Why the session was closed; null while it is open. */
  #closed: EndReason | null = null;
  #measure: Measure;
  /** Whether the last state frame contained the duration. */
  #isDurationPublished: boolean;
  #failure: string | null = null;
  #createdAt: string;
  #updatedAt: string;

  constructor(options: SessionOptions, plan: ReplayPlan) {
    const { settings, scheduler, wallTime, life = 0 } = options;
    this.#options = options;
    this.#settings = settings;
    this.#plan = plan;
    this.#isDurationPublished = plan.outline.survey !== null;
    this.#measure = createMeasure(scheduler, options);
    this.#createdAt = this.#updatedAt = wallTime();
    this.#playback = createPlayback({
      ...options,
      plan,
      idBase: life * LIFE_IDS,
      owner: {
        settings: () => this.#settings,
        describe: () => stringify(this.view()),
        describePosition: () => this.#describePosition(),
        findEndReason: () => findEndReason(this.#state, this.#failure),
        pauseDue: () => this.pause(),
        playedOut: () => this.#loopOrFinish(),
        failed: (error) => this.#fail(error),
      },
    });
  }

  get stream(): SessionStream {
    return this.#playback.stream;
  }

  get state(): SessionState {
    return this.#state;
  }

  get eventCount(): number {
    return this.#plan.outline.eventCount;
  }

  get positionNs(): number {
    return this.place().positionNs;
  }

  /**
   * Returns a view whose fields are all from the same moment, because only `kept` catches up with the played events.
   */
  view(): SessionView {
    const kept = this.kept();
    const startsAtNs = this.#playback.startsAtNs();
    const until = this.#playback.until();
    const lastEventId = this.stream.lastId;
    return buildSessionView(kept, { ...this.#playback.punctuality(), until, startsAtNs, lastEventId });
  }

  /** Returns the data that restores the session in its current state. */
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

  #describePosition(): string | null {
    if (this.#state !== 'playing') return null;
    const { eventIndex, positionNs } = this.place();
    const { lateness } = this.#playback.punctuality();
    return stringify({ position_ns: positionNs, event_index: eventIndex, lateness });
  }

  /** Restores the kept state; must be called before any command. */
  async comeBack(kept: KeptSession): Promise<void> {
    this.#isDurationPublished = true; // No state frame is sent before the session is restored.
    this.#rounds = kept.rounds;
    this.#failure = kept.failure;
    this.#createdAt = kept.createdAt;
    this.#updatedAt = kept.updatedAt;
    this.#state = kept.state === 'playing' ? 'paused' : kept.state;
    const place = await restorePosition(kept, this.#plan);
    if (place) this.#playback.moveTo(place.positionNs, place.index);
    else this.#playback.moveToEnd();
    if (!place && this.#state !== 'stopped') this.#state = 'finished';
    this.#isDurationPublished = this.#plan.outline.survey !== null;
  }

  /** Starts the clock. If the session is already playing and `until` is omitted, the pause set before stays. */
  play(until?: Until | null): Promise<void> {
    return this.#runInTurn(async () => {
      if (this.#checkTransition('play') === this.#state) {
        const before = this.#playback.until();
        if (until !== undefined) this.#playback.pauseAt(until);
        return this.#playback.until() === before ? undefined : this.#enter('playing');
      }
      if (this.#state === 'finished') await this.#playback.rewind();
      // The first events are loaded before the clock runs.
      await this.#playback.load();
      await this.#measure.delayAdmission(this.#plan.outline.survey !== null);
      if (this.#plan.outline.latency.length > 1)
        this.layoutEndNs ??= await this.#measure.end((signal) => this.#plan.endWith({}, signal));
      const state = this.#checkTransition('play');
      this.#options.admit?.();
      this.#playback.runExclusively(() => {
        this.#playback.pauseAt(until ?? null);
        this.#playback.start();
        this.#enter(state);
      });
    });
  }

  pause(): void {
    const state = this.#checkTransition('pause');
    if (this.#state !== 'paused') this.#halt(state);
  }

  seek(target: SeekTarget): Promise<void> {
    return this.#runInTurn(async () => {
      this.#checkTransition('seek');
      const place = await this.#playback.find(target).catch((error) => {
        // The position of the pause may have become known meanwhile. Publishing also takes back events fed past that
        // position.
        if (this.#state === 'playing' && !this.#closed) this.#publishState();
        throw error;
      });
      this.#checkTransition('seek');
      if (!place) return this.#finish();
      this.#playback.halt();
      this.#playback.seek(place);
      if (this.#state === 'playing') await this.#playback.load().catch((error) => this.#fail(error));
      const state = this.#checkTransition('seek');
      this.#playback.runExclusively(() => {
        if (state === 'playing') this.#playback.start();
        this.#enter(state);
      });
    });
  }

  /**
   * Emits `count` events at once, regardless of their times, and returns them as JSON. A negative count moves back
   * without emitting events.
   */
  step(count: number): Promise<string[]> {
    const command = count > 0 ? 'step' : 'step_back';
    return this.#runInTurn(async () => {
      this.#checkTransition(command);
      // All events are loaded before the first one is emitted, so that a step is done completely or not at all.
      const next = this.#playback.next();
      const from = count > 0 ? next : Math.max(next + count, 0);
      const page = await this.#plan.readPage(from, Math.max(count, 1));
      const state = this.#checkTransition(command);
      const events = count > 0 ? encodeSteppedEvents(page, this.#options.now(), this.#settings.timeoutNs) : [];
      const target = from + events.length;
      const at = Math.max(events.length - 1, 0);
      this.#playback.runExclusively((frames) => {
        for (const json of events) frames.addEvent(json);
        if (target !== this.#playback.next()) this.#playback.moveTo(page.startNs[at]!, target);
        this.#enter(state);
      });
      return events;
    });
  }

  /** Lists the current schedule from an index on, in pages of events as JSON objects. */
  timeline(index: number, limit: number): AsyncGenerator<string[], void> {
    return readTimeline(this.#plan, { index, limit }, this.#settings.timeoutNs);
  }

  stop(): void {
    const state = this.#checkTransition('stop');
    if (this.#state !== 'stopped') this.#halt(state, 'stopped');
  }

  /** Changes settings in any state but stopped; the position stays. */
  change(change: SessionChange): Promise<void> {
    return this.#runInTurn(async () => {
      this.#checkTransition('change');
      const isPlaying = this.#state === 'playing';
      const coming = isPlaying ? await this.#admitChange(change) : change;
      // Until the change is applied, the admission of other sessions takes this session's changed rate into account.
      this.coming = coming;
      try {
        await this.#changePlan(coming);
      } finally {
        this.coming = undefined;
      }
      const state = this.#checkTransition('change');
      const { speedFactor, loop } = change;
      this.#playback.runExclusively(() => {
        if (speedFactor !== undefined) {
          this.#settings = { ...this.#settings, speedFactor };
          this.#playback.setSpeed(speedFactor);
        }
        if (loop !== undefined && loop !== this.#settings.loop) {
          this.#settings = { ...this.#settings, loop };
          this.#playback.updateLoop();
        }
        this.#enter(state);
      });
    });
  }

  /** Throws a Problem when the changed session would exceed the capacity. */
  async #admitChange(change: SessionChange): Promise<ComingChange> {
    const layout = findLayoutChange(this.#settings, change);
    const endNs = layout && (await this.#measure.end((signal) => this.#plan.endWith(layout, signal)));
    const coming = { ...change, endNs };
    if (endNs === undefined) await this.#measure.delayAdmission(this.#plan.outline.survey !== null, coming);
    this.#options.admit?.(coming);
    return coming;
  }

  /** Applies the settings of a change that affect the plan. */
  async #changePlan(change: ComingChange): Promise<void> {
    const layout = findLayoutChange(this.#settings, change);
    if (layout) {
      await this.#playback.changeLatency(layout);
      this.#settings = { ...this.#settings, ...layout };
      this.layoutEndNs = change.endNs;
    }
    const { timeoutNs } = change;
    if (timeoutNs === undefined || timeoutNs === this.#settings.timeoutNs) return;
    await this.#plan.changeTimeout(timeoutNs === null ? null : Number(timeoutNs));
    // Prepared frames have an `after_timeout` based on the old deadline; `runExclusively` discards these frames.
    this.#playback.runExclusively(() => {
      this.#settings = { ...this.#settings, timeoutNs };
    });
  }

  /** Called when the plan's outline has changed. */
  takeOutline(): void {
    if (this.#plan.outline.survey) this.#measure.reportKnown();
    this.#playback.takeOutline();
    // Most commands are answered before the duration is known, so a state frame announces it. A stopped session sends
    // no frame after its `end` frame.
    if (!this.#isDurationPublished && this.#plan.outline.survey && this.#state !== 'stopped') this.#publishState();
    this.#options.onChange?.();
  }

  close(reason: EndReason): void {
    if (this.#closed) return;
    this.#closed = reason;
    this.#playback.halt();
    this.#plan.close();
    this.#playback.close(reason);
  }

  /** Returns the state that a command leads to; throws a Problem when the command is refused. */
  #checkTransition(command: Command): SessionState {
    if (this.#closed) throw createClosedProblem(this.#closed);
    return computeNextState(this.#state, command);
  }

  #enter(state: SessionState): void {
    this.#state = state;
    if (state !== 'playing') this.#playback.pauseAt(null);
    this.#updatedAt = this.#options.wallTime();
    this.#publishState();
    this.#options.onChange?.();
  }

  #publishState(): void {
    this.#isDurationPublished = this.#plan.outline.survey !== null;
    this.#playback.runExclusively((frames) => frames.addState(stringify(this.view())));
  }

  /** Stops the clock and enters a state; an end reason also ends the stream. */
  #halt(state: SessionState, endReason?: EndReason): void {
    this.#playback.runExclusively((frames) => {
      this.#playback.halt();
      this.#enter(state);
      if (endReason) frames.end(endReason);
    });
  }

  /** Called when the end of the replay is due. */
  #loopOrFinish(): void {
    if (this.#settings.loop) this.#beginAgain();
    else this.#finish();
  }

  #finish(): void {
    const endReason = this.#state === 'finished' ? undefined : 'finished';
    this.#playback.runExclusively(() => {
      this.#playback.halt();
      this.#playback.moveToEnd();
      this.#halt('finished', endReason);
    });
  }

  /** Starts the next round of a looping session. */
  #beginAgain(): void {
    this.#rounds++;
    this.#playback.halt();
    this.#runInTurn(async () => {
      // A seek that ran before this point has already moved and restarted the session.
      if (this.#state !== 'playing' || this.#playback.isRunning()) return;
      await this.#playback.rewind();
      await this.#playback.load();
      if (this.#state !== 'playing' || this.#closed) return;
      this.#playback.runExclusively(() => {
        this.#playback.start();
        this.#enter('playing');
      });
    }).catch((error) => this.#fail(error));
  }

  /** Stops the session after an error that no command can report to a client. */
  #fail(error: unknown): void {
    if (this.#state === 'stopped') return;
    this.#failure = error instanceof Error ? error.message : String(error);
    this.#halt('stopped', 'failed');
  }
}

/** Lists the schedule of a session without playing it: yields pages of events as JSON objects. */
async function* readTimeline(
  plan: Pick<ReplayPlan, 'readPage'>,
  { index, limit }: { index: number; limit: number },
  timeoutNs: bigint | null,
): AsyncGenerator<string[], void> {
  for (let [from, left] = [index, limit]; left > 0; ) {
    const page = await plan.readPage(from, Math.min(left, TIMELINE_PAGE_EVENTS));
    yield encodeScheduledEvents(page, timeoutNs);
    if (page.isLast) return;
    from += page.count;
    left -= page.count;
  }
}

/* Delays admission until the duration of a session is known, which takes one pass through its plan. */

/** Maximum wait for the duration. A plan of a million events is processed in a third of this time. */
const PATIENCE_NS = 1_000_000_000n;

interface Measure {
  /** Reports that the duration is known. */
  reportKnown(): void;
  /** If the session might exceed the capacity, waits for a limited time until the duration is known. */
  delayAdmission(isKnown: boolean, change?: ComingChange): Promise<void>;
  /** Computes the end of a layout within a limited time; resolves to undefined if the time is too short. */
  end(compute: (signal: AbortSignal) => Promise<number>): Promise<number | undefined>;
}

function createMeasure(scheduler: Scheduler, { now, admit }: Pick<SessionOptions, 'now' | 'admit'>): Measure {
  let resolveKnown = () => {};
  let giveUp = () => {};
  const patience = scheduler.createAlarm(() => giveUp());

  /** Resolves when the work is done or has taken too long. */
  async function waitPatiently(work: Promise<unknown>): Promise<void> {
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
    reportKnown: () => resolveKnown(),
    async delayAdmission(isKnown, change) {
      if (isKnown) return;
      try {
        admit?.(change);
      } catch {
        const outlineKnown = new Promise<void>((resolve) => {
          resolveKnown = resolve;
        });
        await waitPatiently(outlineKnown);
      }
    },
    async end(compute) {
      const givingUp = new AbortController();
      let endNs: number | undefined;
      const work = compute(givingUp.signal).then((ns) => {
        endNs = ns;
      });
      // If `work` fails after the wait, no other code handles the rejection.
      work.catch(() => {});
      try {
        await waitPatiently(work);
        return endNs;
      } finally {
        givingUp.abort();
      }
    },
  };
}

/* Opens a session for a transaction, new or from its kept state. */

/** Opens a new session; rejects with a Problem if the transaction is not playable. */
export async function openSession(options: SessionOptions, planner: Planner): Promise<Session> {
  const { extraLatencyNs, only } = options.settings;
  return openWithLatency(options, planner, [{ fromIndex: 0, extraLatencyNs, only }]);
}

/** Opens a kept session. A session that was playing is paused. Rejects as `openSession` does. */
export async function reopenSession(
  options: Omit<SessionOptions, 'sessionId' | 'settings'>,
  planner: Planner,
  kept: KeptSession,
): Promise<Session> {
  const { sessionId, settings, outline, life } = kept;
  const again = { ...options, sessionId, settings, life: life + 1 };
  const session = await openWithLatency(again, planner, outline.latency);
  try {
    await session.comeBack(kept);
    return session;
  } catch (error) {
    session.close('failed');
    throw error;
  }
}

async function openWithLatency(
  options: SessionOptions,
  planner: Planner,
  latency: readonly LatencyChange[],
): Promise<Session> {
  let session: Session | undefined;
  const plan = await planner.open(buildPlanRequest(options.settings, latency), () => session?.takeOutline());
  session = new Session(options, plan);
  return session;
}
