/** A replay session: it plays one transaction by its clock, controlled by commands. */
import { stringify } from '../../exact_json.ts';
import { createClock, type ReplayClock } from '../clock/clock.ts';
import { createLateness, type Lateness } from '../clock/lateness.ts';
import type { Alarm } from '../clock/scheduler.ts';
import type { KeptSession } from '../kept/kept_session.ts';
import { restorePosition } from '../kept/restore_position.ts';
import type { SessionPlace } from '../kept/state_file.ts';
import type { ReplayPlan } from '../plan/planner.ts';
import type { SeekTarget } from '../target.ts';
import { type Command, type State, transition } from '../transitions.ts';
import { boundOf, countDue, encodeDueEvents, firstToMove, isPlayedOut } from './due.ts';
import { createEventBuffer, type EventBuffer } from './event_buffer.ts';
import { createMeasure, type Measure } from './measure.ts';
import { steppedJson } from './replayed_event.ts';
import { closedProblem, type SessionChange, type SessionOptions, turnsUntilClosed } from './session_options.ts';
import { type SessionSettings, type SessionView, viewOf } from './session_view.ts';
import { createStream, type EndReason, overBy, type SessionStream } from './stream.ts';
import { timelineOf } from './timeline.ts';

/** Range of frame ids reserved each time a session is opened: more than it ever uses. */
const LIFE_IDS = 2 ** 40;
export class Session {
  readonly stream: SessionStream;
  /** The change that is being applied. */
  coming: SessionChange | undefined;
  #options: SessionOptions;
  #settings: SessionSettings;
  #plan: ReplayPlan;
  #window: EventBuffer;
  #clock: ReplayClock;
  #alarm: Alarm;
  /** Serializes the commands that have to wait for the plan. */
  #inTurn = turnsUntilClosed(() => this.#closed);
  #lateness: Lateness;
  #state: State = 'ready';
  /** Projected index of the next event. */
  #next = 0;
  /** Start of the event before the next one. */
  #passedNs = 0;
  #isStarving = false;
  #starvations = 0;
  #rounds = 0;
  /** Events from this index on are being laid out again, and are not played until that is done. */
  #playableEnd = Infinity;
  /** Null until it is closed. */
  #closed: EndReason | null = null;
  #measure: Measure;
  /** Whether the last state frame contained the duration. */
  #isWholeTold: boolean;
  #failure: string | null = null;
  #createdAt: string;
  #updatedAt: string;

  constructor(options: SessionOptions, plan: ReplayPlan) {
    const { now, settings, scheduler, wallTime, keptTotal } = options;
    this.#options = options;
    this.#settings = settings;
    this.#plan = plan;
    this.#isWholeTold = plan.outline.survey !== null;
    this.#window = createEventBuffer({
      plan,
      speedFactor: () => this.#settings.speedFactor,
      onPage: () => this.#fed(),
      onFailure: (error) => {
        // A failure of a command is reported to the client by that command.
        if (this.#clock.running) this.#fail(error);
      },
    });
    this.#clock = createClock(now, settings.speedFactor);
    this.#lateness = createLateness(options.onPlayed);
    this.#measure = createMeasure(scheduler, options);
    this.#alarm = scheduler.alarm(() => this.#ring());
    this.#createdAt = this.#updatedAt = wallTime();
    this.stream = createStream({
      describe: () => stringify(this.view()),
      over: () => overBy(this.#state, this.#failure),
      keptTotal,
      idBase: (options.life ?? 0) * LIFE_IDS,
    });
  }

  get state(): State {
    return this.#state;
  }

  get eventCount(): number {
    return this.#plan.outline.eventCount;
  }

  /** The position is never past an unplayed event, so that a pause at that moment loses none. */
  get positionNs(): number {
    const boundNs = boundOf(this.#window, this.#plan.outline, this.#next) ?? this.#passedNs;
    return Math.min(Number(this.#clock.positionNs()), boundNs);
  }

  view(): SessionView {
    const [lateness, starvations] = [this.#lateness.summary(), this.#starvations];
    return viewOf(this.kept(), { lateness, starvations, lastEventId: this.stream.lastId });
  }

  /** The data that restores the session in its current state. */
  kept(): KeptSession {
    return {
      ...this.place(),
      ...{ settings: this.#settings, state: this.#state, outline: this.#plan.outline },
      ...{ rounds: this.#rounds, failure: this.#failure, life: this.#options.life ?? 0 },
      ...{ createdAt: this.#createdAt, updatedAt: this.#updatedAt },
    };
  }

  place(): SessionPlace {
    return { sessionId: this.#options.sessionId, eventIndex: this.#next, positionNs: this.positionNs };
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
    if (place) this.#moveTo(place.positionNs, place.index);
    else this.#moveToEnd();
    if (!place && this.#state !== 'stopped') this.#state = 'finished';
    this.#isWholeTold = this.#plan.outline.survey !== null;
  }

  play(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#enters('play') === this.#state) return;
      if (this.#state === 'finished') await this.#rewind();
      this.#window.moveTo(this.#next);
      // The event is loaded and the state frame sent before the clock runs: the first event is due at once.
      await this.#window.ready(this.#next);
      await this.#measure.beforeAdmission(this.#plan.outline.survey !== null);
      const state = this.#enters('play');
      this.#options.admit?.();
      this.#enter(state);
      this.#clock.play();
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
      // An event that is not recorded any more must fail the seek before anything has moved.
      if (place) await this.#plan.page(place.index, 1);
      this.#enters('seek');
      if (!place) return this.#finish();
      // The clock stands still until the state frame is sent, as in play().
      this.#halt();
      // place() may have replaced the layout of the plan.
      this.#window.forget(0);
      this.#moveTo(place.positionNs, place.index);
      if (this.#state === 'playing') await this.#window.ready(place.index).catch((error) => this.#fail(error));
      const state = this.#enters('seek');
      this.#enter(state);
      if (state !== 'playing') return;
      this.#clock.play();
      this.#awaitNext();
    });
  }

  /** Emits `count` events at once, whatever their time, and returns them as JSON; a negative count moves back. */
  step(count: number): Promise<string[]> {
    const command = count > 0 ? 'step' : 'step_back';
    return this.#inTurn(async () => {
      this.#enters(command);
      // All events are loaded before the first is emitted: a step is done completely or not at all.
      const from = count > 0 ? this.#next : Math.max(this.#next + count, 0);
      const page = await this.#plan.page(from, Math.max(count, 1));
      const state = this.#enters(command);
      const events = count > 0 ? steppedJson(page, this.#options.now(), this.#settings.timeoutNs) : [];
      for (const json of events) this.stream.publish('event', json, 1);
      const [target, at] = [from + events.length, Math.max(events.length - 1, 0)];
      if (target !== this.#next) this.#moveTo(page.startNs[at]!, target);
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
    this.#halt();
    this.#enter(state);
    this.stream.end('stopped');
  }

  /** Changes settings in any state but stopped; the position stays. */
  change({ extraLatencyNs, speedFactor, loop }: SessionChange): Promise<void> {
    return this.#inTurn(async () => {
      this.#enters('change');
      const isPlaying = this.#state === 'playing';
      const change = { speedFactor, extraLatencyNs, loop };
      if (isPlaying) await this.#measure.beforeAdmission(this.#plan.outline.survey !== null, change);
      if (isPlaying) this.#options.admit?.(change);
      // Until the change is applied, the admission of other sessions counts the rate after it.
      this.coming = change;
      try {
        if (extraLatencyNs !== undefined && extraLatencyNs !== this.#settings.extraLatencyNs)
          await this.#changeLatency(extraLatencyNs);
      } finally {
        this.coming = undefined;
      }
      const state = this.#enters('change');
      if (speedFactor !== undefined) {
        this.#settings = { ...this.#settings, speedFactor };
        const positionNs = this.positionNs;
        this.#clock.setSpeed(speedFactor);
        // An overdue event becomes due now: the new speed would otherwise change how late it is.
        this.#clock.jump(BigInt(positionNs));
      }
      if (loop !== undefined) this.#settings = { ...this.#settings, loop };
      this.#enter(state);
      if (this.#clock.running) this.#awaitNext();
    });
  }

  /** Called when the plan's outline has changed. */
  outlined(): void {
    if (this.#plan.outline.survey) this.#measure.known();
    if (this.#clock.running && !this.#isStarving) this.#awaitNext();
    // Most commands are answered before the duration is known, so a state frame announces it. A stopped session sends
    // no frame after its `end` frame.
    if (!this.#isWholeTold && this.#plan.outline.survey && this.#state !== 'stopped') this.#tell();
    this.#options.onChange?.();
  }

  close(reason: EndReason): void {
    this.#closed = reason;
    this.#halt();
    this.#plan.close();
    this.stream.close(reason);
  }

  /** It returns the state that a command leads to; throws a Problem when the command is refused. */
  #enters(command: Command): State {
    if (this.#closed) throw closedProblem(this.#closed);
    return transition(this.#state, command);
  }

  #enter(state: State): void {
    this.#state = state;
    this.#updatedAt = this.#options.wallTime();
    this.#tell();
    this.#options.onChange?.();
  }

  #tell(): void {
    this.#isWholeTold = this.#plan.outline.survey !== null;
    this.stream.publish('state', stringify(this.view()));
    this.stream.flush();
  }

  #moveTo(positionNs: number, index: number): void {
    this.#clock.jump(BigInt(positionNs));
    this.#next = index;
    this.#passedNs = positionNs;
    this.#isStarving = false;
    this.#window.moveTo(index);
  }

  /** The survey must be done. */
  #moveToEnd(): void {
    const { eventCount, survey } = this.#plan.outline;
    this.#moveTo(survey!.endNs, eventCount);
  }

  async #rewind(): Promise<void> {
    const start = await this.#plan.place({ event_index: 0n });
    this.#window.forget(0);
    this.#moveTo(start!.positionNs, start!.index);
    this.#lateness.reset();
  }

  async #changeLatency(extraLatencyNs: number): Promise<void> {
    const from = firstToMove(this.#window, this.#clock, this.#next, this.#options.now());
    // Events from here on must not be played with their old times, however long the plan takes.
    this.#playableEnd = from;
    try {
      await this.#plan.changeLatency(from, extraLatencyNs);
      this.#window.forget(from);
    } finally {
      this.#playableEnd = Infinity;
      if (this.#clock.running) this.#awaitNext();
    }
    this.#settings = { ...this.#settings, extraLatencyNs };
    this.#window.moveTo(this.#next);
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
    this.#moveToEnd();
    this.#enter('finished');
    if (first) this.stream.end('finished');
  }

  /** Starts the next round of a looping session. */
  #beginAgain(): void {
    this.#rounds++;
    this.#halt();
    this.#inTurn(async () => {
      // A seek that ran before this has moved the session elsewhere.
      if (this.#state !== 'playing' || this.#clock.running) return;
      await this.#rewind();
      await this.#window.ready(0);
      if (this.#state !== 'playing' || this.#closed) return;
      this.#enter('playing');
      this.#clock.play();
      this.#awaitNext();
    }).catch((error) => this.#fail(error));
  }

  /** Stops the session after an error that belongs to no command: only the session can report it. */
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
    const [window, clock, first] = [this.#window, this.#clock, this.#next];
    const end = countDue(window, clock, first, this.#playableEnd, this.#options.now());
    if (end === first) return;
    const sentNs = this.#options.now();
    const told = encodeDueEvents(window, clock, [first, end], sentNs, this.#settings.timeoutNs);
    this.stream.publish(end - first === 1 ? 'event' : 'events', told, end - first);
    for (let at = first; at < end; at++) this.#lateness.record(sentNs - clock.dueAt(window.startNs(at)!));
    this.#passedNs = window.startNs(end - 1)!;
    this.#next = end;
    this.#window.moveTo(this.#next);
  }

  #awaitNext(): void {
    if (this.#next >= this.#playableEnd) return;
    const startNs = this.#window.startNs(this.#next);
    if (startNs !== undefined) {
      this.#isStarving = false;
      this.#alarm.set(this.#clock.dueAt(startNs));
      return;
    }
    const { survey } = this.#plan.outline;
    const isOver = isPlayedOut(this.#window, this.#plan.outline, this.#next);
    // If the survey is not done yet, `outlined` calls this again.
    if (isOver && survey) {
      const dueNs = this.#clock.dueAt(survey.endNs);
      if (dueNs > this.#options.now()) this.#alarm.set(dueNs);
      else if (this.#settings.loop) this.#beginAgain();
      else this.#finish();
    } else if (!isOver) this.#isStarving = true;
  }

  /** Called when more events are loaded. */
  #fed(): void {
    if (!this.#clock.running) return;
    const startNs = this.#isStarving ? this.#window.startNs(this.#next) : undefined;
    if (startNs !== undefined && this.#clock.dueAt(startNs) <= this.#options.now()) this.#starvations++;
    this.#isStarving = false;
    this.#awaitNext();
  }
}
