/** A session: one transaction, its clock, and what the commands make of them. */
import { stringify } from '../json.ts';
import { takingTurns } from '../turns.ts';
import { createClock, type ReplayClock, type SteadyNow } from './clock.ts';
import type { KeptTotal } from './frames.ts';
import { createLateness, type LatenessSummary } from './lateness.ts';
import type { PlanPage } from './plan/plan.ts';
import type { Plan, Planner } from './plan/planner.ts';
import type { Alarm, Scheduler } from './scheduler.ts';
import { createStream, type EndReason, type SessionStream } from './stream.ts';
import type { SeekTarget } from './target.ts';
import { type Command, type State, transition } from './transitions.ts';
import { createWindow, type EntryAtHand, openJson, type Window } from './window.ts';

/** Emitted in one turn of the event loop; then sockets and other sessions have theirs. */
export const BURST_EVENTS_MAX = 32;
/** Read at once of a whole schedule. */
const TIMELINE_PAGE_EVENTS = 1024;
/** A change of latency holds for events that are due later than this: those before are on their way. */
const CHANGE_AHEAD_NS = 20_000_000n;

/** As the API gives it. */
export interface SessionView {
  session_id: string;
  transaction_id: string;
  speed_factor: number;
  extra_latency_ns: bigint;
  timeout_ns: bigint | null;
  max_gap_ns: bigint | null;
  loop: boolean;
  state: State;
  position_ns: bigint;
  duration_ns: bigint;
  /** Null until all events have been gone through. */
  replay_duration_ns: bigint | null;
  /** Of the next event; the event count when none is left. */
  event_index: number;
  event_count: number;
  /** Null until it is known. */
  times_out: boolean | null;
  timeout_event_id: string | null;
  /** How often it came to its end and began again. */
  rounds: number;
  lateness: LatenessSummary;
  /** How often an event was due before it had been read. */
  starvations: number;
  /** Why the daemon stopped it by itself. */
  failure: string | null;
  created_at: string;
  updated_at: string;
}

/** What is told of an event with it. */
export interface ReplayedEvent {
  index: number;
  /** On the replay's own time line. */
  offset_ns: number;
  /** On the daemon's steady clock (CLOCK_MONOTONIC). */
  due_ns: bigint;
  lateness_ns: bigint;
  /** With the extra latency. */
  duration_ns: number;
  after_timeout: boolean;
}

/** What can be set when it is made, and read back to make it again. */
export interface SessionSettings {
  transactionId: string;
  speedFactor: number;
  extraLatencyNs: number;
  timeoutNs: bigint | null;
  maxGapNs: number | null;
  loop: boolean;
}

/** What a PATCH changes. */
export interface SessionChange {
  speedFactor?: number | undefined;
  extraLatencyNs?: number | undefined;
  loop?: boolean | undefined;
}

export interface SessionOptions {
  sessionId: string;
  settings: SessionSettings;
  now: SteadyNow;
  /** RFC 3339. */
  wallTime: () => string;
  scheduler: Scheduler;
  keptTotal: KeptTotal;
  onPlayed?: ((latenessNs: bigint) => void) | undefined;
}

/** Rejects with a Problem when the transaction can not be played. */
export async function openSession(options: SessionOptions, planner: Planner): Promise<Session> {
  const { transactionId, extraLatencyNs, timeoutNs, maxGapNs } = options.settings;
  let session: Session | undefined;
  const request = { transactionId, extraLatencyNs, timeoutNs: timeoutNs === null ? null : Number(timeoutNs), maxGapNs };
  const plan = await planner.open(request, () => session?.outlined());
  session = new Session(options, plan);
  return session;
}

export class Session {
  readonly stream: SessionStream;
  #options: SessionOptions;
  #settings: SessionSettings;
  #plan: Plan;
  #window: Window;
  #clock: ReplayClock;
  #alarm: Alarm;
  /** Commands that have to wait for the plan come one after the other. */
  #inTurn = takingTurns();
  #lateness = createLateness();
  #state: State = 'ready';
  /** Projected index of the next event. */
  #next = 0;
  /** Start of the event before it. */
  #passedNs = 0;
  #isStarving = false;
  #starvations = 0;
  #rounds = 0;
  #failure: string | null = null;
  #createdAt: string;
  #updatedAt: string;

  constructor(options: SessionOptions, plan: Plan) {
    const { now, settings, scheduler, wallTime, keptTotal } = options;
    this.#options = options;
    this.#settings = settings;
    this.#plan = plan;
    this.#window = createWindow({
      plan,
      nowMs: () => Number(now() / 1_000_000n),
      onPage: () => this.#fed(),
      onFailure: (error) => {
        // Who waits for a command is told by that.
        if (this.#clock.running) this.#fail(error);
      },
    });
    this.#clock = createClock(now, settings.speedFactor);
    this.#alarm = scheduler.alarm(() => this.#ring());
    this.#createdAt = this.#updatedAt = wallTime();
    this.stream = createStream({ describe: () => stringify(this.view()), over: () => this.over, keptTotal });
  }

  get state(): State {
    return this.#state;
  }

  get eventCount(): number {
    return this.#plan.outline.eventCount;
  }

  get over(): EndReason | null {
    if (this.#failure !== null) return 'failed';
    return this.#state === 'finished' || this.#state === 'stopped' ? this.#state : null;
  }

  /** Never past an event that has not been played, so that nothing is lost when it is paused just there. */
  get positionNs(): number {
    const reachedNs = Number(this.#clock.positionNs());
    return Math.min(reachedNs, this.#boundNs());
  }

  view(): SessionView {
    const { sessionId } = this.#options;
    const { transactionId, speedFactor, extraLatencyNs, timeoutNs, maxGapNs, loop } = this.#settings;
    const { eventCount, recordedDurationNs, survey } = this.#plan.outline;
    return {
      session_id: sessionId,
      transaction_id: transactionId,
      speed_factor: speedFactor,
      extra_latency_ns: BigInt(extraLatencyNs),
      timeout_ns: timeoutNs,
      max_gap_ns: maxGapNs === null ? null : BigInt(maxGapNs),
      loop,
      state: this.#state,
      position_ns: BigInt(this.positionNs),
      duration_ns: BigInt(recordedDurationNs),
      replay_duration_ns: survey && BigInt(survey.durationNs),
      event_index: this.#next,
      event_count: eventCount,
      times_out: survey ? survey.timeoutEventId !== null : timeoutNs === null ? false : null,
      timeout_event_id: survey?.timeoutEventId ?? null,
      rounds: this.#rounds,
      lateness: this.#lateness.summary(),
      starvations: this.#starvations,
      failure: this.#failure,
      created_at: this.#createdAt,
      updated_at: this.#updatedAt,
    };
  }

  play(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#enters('play') === this.#state) return;
      if (this.#state === 'finished') await this.#rewind();
      this.#window.moveTo(this.#next);
      // Before the clock runs, so that the first event is not late for want of its bytes.
      await this.#window.ready(this.#next);
      const state = this.#enters('play');
      this.#clock.play();
      this.#enter(state);
      this.#awaitNext();
    });
  }

  pause(): void {
    const state = this.#enters('pause');
    if (this.#state === 'paused') return;
    this.#halt();
    this.#enter(state);
  }

  seek(target: SeekTarget): Promise<void> {
    return this.#inTurn(async () => {
      this.#enters('seek');
      const place = await this.#plan.place(target);
      const state = this.#enters('seek');
      if (!place) {
        this.#finish();
        return;
      }
      // The plan may be another one now.
      this.#window.forget(0);
      this.#moveTo(place.positionNs, place.index);
      this.#enter(state);
      if (state === 'playing') this.#awaitNext();
    });
  }

  /** Emits `count` events now, whatever their time, and gives them as JSON; a negative count moves back by as many. */
  step(count: number): Promise<string[]> {
    const command = count > 0 ? 'step' : 'step_back';
    return this.#inTurn(async () => {
      this.#enters(command);
      // All of them are read before the first is emitted: a step is done whole or not at all.
      const from = count > 0 ? this.#next : Math.max(this.#next + count, 0);
      const page = await this.#plan.page(from, Math.max(count, 1));
      const state = this.#enters(command);
      const events = count > 0 ? this.#emitPage(page) : [];
      const target = from + events.length;
      const at = events.length > 0 ? events.length - 1 : 0;
      if (target !== this.#next) this.#moveTo(page.startNs[at]!, target);
      this.#enter(state);
      return events;
    });
  }

  /** The schedule as it is now: events as JSON objects, in pages, from an index on. */
  async *timeline(index: number, limit: number): AsyncGenerator<string[], void> {
    for (let [from, left] = [index, limit]; left > 0; ) {
      const page = await this.#plan.page(from, Math.min(left, TIMELINE_PAGE_EVENTS));
      yield Array.from({ length: page.count }, (_, at) => this.#scheduled(page, at));
      if (page.isLast) return;
      from += page.count;
      left -= page.count;
    }
  }

  stop(): void {
    const state = this.#enters('stop');
    if (this.#state === 'stopped') return;
    this.#halt();
    this.#enter(state);
    this.stream.end('stopped');
  }

  /** In any state but stopped; the place stays. */
  change({ extraLatencyNs, speedFactor, loop }: SessionChange): Promise<void> {
    return this.#inTurn(async () => {
      this.#enters('change');
      if (extraLatencyNs !== undefined && extraLatencyNs !== this.#settings.extraLatencyNs)
        await this.#changeLatency(extraLatencyNs);
      const state = this.#enters('change');
      if (speedFactor !== undefined) {
        this.#settings = { ...this.#settings, speedFactor };
        const positionNs = this.positionNs;
        this.#clock.setSpeed(speedFactor);
        // An event that is overdue is due now: at another speed it would be late by another time.
        this.#clock.jump(BigInt(positionNs));
      }
      if (loop !== undefined) this.#settings = { ...this.#settings, loop };
      this.#enter(state);
      if (state === 'playing') this.#awaitNext();
    });
  }

  /** More is known of the plan. */
  outlined(): void {
    if (this.#clock.running && !this.#isStarving) this.#awaitNext();
  }

  close(reason: EndReason): void {
    this.#halt();
    this.#plan.close();
    this.stream.close(reason);
  }

  /** The state that a command leads to; a Problem when it is refused. */
  #enters(command: Command): State {
    return transition(this.#state, command);
  }

  #enter(state: State): void {
    this.#state = state;
    this.#updatedAt = this.#options.wallTime();
    this.stream.publish('state', stringify(this.view()));
    this.stream.flush();
  }

  #boundNs(): number {
    const next = this.#window.at(this.#next);
    if (next) return next.startNs;
    const { survey } = this.#plan.outline;
    return this.#isPlayedOut() && survey ? survey.durationNs : this.#passedNs;
  }

  /** Nothing is left to be emitted. */
  #isPlayedOut(): boolean {
    return this.#window.isEnd(this.#next) || (this.#plan.outline.survey !== null && this.#next >= this.eventCount);
  }

  #moveTo(positionNs: number, index: number): void {
    this.#clock.jump(BigInt(positionNs));
    this.#next = index;
    this.#passedNs = positionNs;
    this.#isStarving = false;
    this.#window.moveTo(index);
  }

  async #rewind(): Promise<void> {
    const start = await this.#plan.place({ event_index: 0n });
    this.#window.forget(0);
    this.#moveTo(start!.positionNs, start!.index);
    this.#lateness.reset();
  }

  async #changeLatency(extraLatencyNs: number): Promise<void> {
    const from = this.#state === 'playing' ? this.#changeFrom() : this.#next;
    await this.#plan.changeLatency(from >= this.eventCount ? 0 : from, extraLatencyNs);
    this.#settings = { ...this.#settings, extraLatencyNs };
    this.#window.forget(from);
    this.#window.moveTo(this.#next);
  }

  /** The first event at hand that is not due soon, or the first that is not at hand. */
  #changeFrom(): number {
    const soonNs = this.#options.now() + CHANGE_AHEAD_NS;
    let index = this.#next;
    for (let entry = this.#window.at(index); entry; entry = this.#window.at(++index))
      if (this.#clock.dueAt(BigInt(entry.startNs)) > soonNs) break;
    return index;
  }

  #halt(): void {
    const positionNs = this.positionNs;
    this.#alarm.clear();
    this.#isStarving = false;
    this.#clock.pause();
    this.#clock.jump(BigInt(positionNs));
  }

  #finish(): void {
    const first = this.#state !== 'finished';
    this.#halt();
    const { eventCount, survey } = this.#plan.outline;
    this.#moveTo(survey!.durationNs, eventCount);
    this.#enter('finished');
    if (first) this.stream.end('finished');
  }

  /** The end of a round. */
  #beginAgain(): void {
    this.#rounds++;
    this.#halt();
    this.#inTurn(async () => {
      if (this.#state !== 'playing') return;
      await this.#rewind();
      await this.#window.ready(0);
      if (this.#state !== 'playing') return;
      this.#clock.play();
      this.#enter('playing');
      this.#awaitNext();
    }).catch((error) => this.#fail(error));
  }

  /** Nobody asked for it, so nobody gets the error but the session itself. */
  #fail(error: unknown): void {
    if (this.#state === 'stopped') return;
    this.#failure = error instanceof Error ? error.message : String(error);
    this.#halt();
    this.#enter('stopped');
    this.stream.end('failed');
  }

  #ring(): void {
    try {
      this.#emitDue();
      this.stream.flush();
      this.#awaitNext();
    } catch (error) {
      this.#fail(error);
    }
  }

  #emitDue(): void {
    const { now, onPlayed } = this.#options;
    for (let burst = 0; burst < BURST_EVENTS_MAX; burst++) {
      const entry = this.#window.at(this.#next);
      if (!entry) break;
      const dueNs = this.#clock.dueAt(BigInt(entry.startNs));
      const latenessNs = now() - dueNs;
      if (latenessNs < 0n) break;
      this.stream.publish('event', this.#json(this.#window.openJson(this.#next), this.#next, entry, dueNs, latenessNs));
      this.#lateness.record(latenessNs);
      onPlayed?.(latenessNs);
      this.#passedNs = entry.startNs;
      this.#next++;
    }
    this.#window.moveTo(this.#next);
  }

  #awaitNext(): void {
    const entry = this.#window.at(this.#next);
    if (entry) {
      this.#isStarving = false;
      this.#alarm.set(this.#clock.dueAt(BigInt(entry.startNs)));
      return;
    }
    const { survey } = this.#plan.outline;
    // Until the survey is done, `outlined` calls again.
    if (this.#isPlayedOut() && survey) {
      const dueNs = this.#clock.dueAt(BigInt(survey.durationNs));
      if (dueNs > this.#options.now()) this.#alarm.set(dueNs);
      else if (this.#settings.loop) this.#beginAgain();
      else this.#finish();
    } else if (!this.#isPlayedOut() && !this.#isStarving) {
      this.#isStarving = true;
    }
  }

  /** More events are at hand. */
  #fed(): void {
    if (!this.#clock.running) return;
    if (this.#isStarving) {
      const entry = this.#window.at(this.#next);
      if (entry && this.#clock.dueAt(BigInt(entry.startNs)) <= this.#options.now()) this.#starvations++;
      this.#isStarving = false;
    }
    this.#awaitNext();
  }

  #emitPage(page: PlanPage): string[] {
    const nowNs = this.#options.now();
    return Array.from({ length: page.count }, (_, at) => {
      const entry = { startNs: page.startNs[at]!, durationNs: page.durationNs[at]! };
      const json = this.#json(openJson(page, at), page.first + at, entry, nowNs, 0n);
      this.stream.publish('event', json);
      return json;
    });
  }

  #scheduled(page: PlanPage, at: number): string {
    const [startNs, durationNs] = [page.startNs[at]!, page.durationNs[at]!];
    const replayed = {
      replay_index: page.first + at,
      replay_offset_ns: startNs,
      replay_duration_ns: durationNs,
      after_timeout: this.#isAfterTimeout(startNs + durationNs),
    };
    return `${openJson(page, at)},${JSON.stringify(replayed).slice(1)}`;
  }

  #isAfterTimeout(endNs: number): boolean {
    const { timeoutNs } = this.#settings;
    return timeoutNs !== null && endNs > timeoutNs;
  }

  /** `open`: the event without the brace at its end. */
  #json(open: string, index: number, { startNs, durationNs }: EntryAtHand, dueNs: bigint, latenessNs: bigint): string {
    const replay: ReplayedEvent = {
      index,
      offset_ns: startNs,
      due_ns: dueNs,
      lateness_ns: latenessNs,
      duration_ns: durationNs,
      after_timeout: this.#isAfterTimeout(startNs + durationNs),
    };
    return `${open},"replay":${stringify(replay)}}`;
  }
}
