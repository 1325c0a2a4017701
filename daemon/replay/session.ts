/** A session: one transaction, its clock, and what the commands make of them. Every command is done when it returns. */
import type { ApiEvent } from '../../bpf/schema/api.ts';
import { stringify } from '../json.ts';
import type { Bodies, BodySource } from './bodies.ts';
import { createClock, type ReplayClock, type SteadyNow } from './clock.ts';
import type { KeptTotal } from './frames.ts';
import { createLateness, type LatenessSummary } from './lateness.ts';
import { type Projection, recordedIndex } from './projection.ts';
import type { Alarm, Scheduler } from './scheduler.ts';
import { createStream, type EndReason, type SessionStream } from './stream.ts';
import { placeOf, type SeekTarget } from './target.ts';
import { type State, transition } from './transitions.ts';

/** Emitted in one turn of the event loop; then sockets and other sessions have theirs. */
export const BURST_EVENTS_MAX = 32;
/** Bodies are in memory this many events before they are due. */
export const READ_AHEAD_EVENTS = 32;

/** As the API gives it. */
export interface SessionView {
  session_id: string;
  transaction_id: string;
  speed_factor: number;
  extra_latency_ns: bigint;
  timeout_ns: bigint | null;
  state: State;
  position_ns: bigint;
  duration_ns: bigint;
  replay_duration_ns: bigint;
  /** Of the next event; the event count when none is left. */
  event_index: number;
  event_count: number;
  times_out: boolean;
  timeout_event_id: string | null;
  lateness: LatenessSummary;
  /** Why the daemon stopped it by itself. */
  failure: string | null;
  created_at: string;
  updated_at: string;
}

export interface ReplayedEvent {
  index: number;
  /** On the replay's own time line. */
  offset_ns: bigint;
  /** On the daemon's steady clock (CLOCK_MONOTONIC). */
  due_ns: bigint;
  lateness_ns: bigint;
  /** With the extra latency. */
  duration_ns: bigint;
  after_timeout: boolean;
}

export interface SessionOptions {
  sessionId: string;
  source: BodySource;
  projection: Projection;
  speedFactor: number;
  extraLatencyNs: bigint;
  timeoutNs: bigint | null;
  bodies: Bodies;
  now: SteadyNow;
  /** RFC 3339. */
  wallTime: () => string;
  scheduler: Scheduler;
  keptTotal: KeptTotal;
  onPlayed?: ((latenessNs: bigint) => void) | undefined;
}

export class Session {
  readonly stream: SessionStream;
  #options: SessionOptions;
  #clock: ReplayClock;
  #alarm: Alarm;
  #lateness = createLateness();
  #state: State = 'ready';
  /** Projected index of the next event. */
  #next = 0;
  #readAheadTo = 0;
  #timeoutEventId: string | null;
  #failure: string | null = null;
  #createdAt: string;
  #updatedAt: string;

  constructor(options: SessionOptions) {
    const { now, speedFactor, scheduler, projection, wallTime, keptTotal } = options;
    this.#options = options;
    this.#clock = createClock(now, speedFactor);
    this.#alarm = scheduler.alarm(() => this.#ring());
    this.#timeoutEventId = projection.timeoutIndex === null ? null : this.#event(projection.timeoutIndex).event_id;
    this.#createdAt = this.#updatedAt = wallTime();
    this.stream = createStream({ describe: () => stringify(this.view()), over: () => this.over, keptTotal });
  }

  get state(): State {
    return this.#state;
  }

  get eventCount(): number {
    return this.#options.source.timeline.count;
  }

  get over(): EndReason | null {
    if (this.#failure !== null) return 'failed';
    return this.#state === 'finished' || this.#state === 'stopped' ? this.#state : null;
  }

  /** Never past an event that has not been played, so that nothing is lost when it is paused just there. */
  get positionNs(): bigint {
    const { startNs, durationNs } = this.#options.projection;
    const boundNs = this.#next < this.eventCount ? startNs[this.#next]! : durationNs;
    const reachedNs = this.#clock.positionNs();
    return reachedNs < boundNs ? reachedNs : boundNs;
  }

  view(): SessionView {
    const { sessionId, source, projection, speedFactor, extraLatencyNs, timeoutNs } = this.#options;
    return {
      session_id: sessionId,
      transaction_id: source.transactionId,
      speed_factor: speedFactor,
      extra_latency_ns: extraLatencyNs,
      timeout_ns: timeoutNs,
      state: this.#state,
      position_ns: this.positionNs,
      duration_ns: source.timeline.durationNs,
      replay_duration_ns: projection.durationNs,
      event_index: this.#next,
      event_count: this.eventCount,
      times_out: projection.timeoutIndex !== null,
      timeout_event_id: this.#timeoutEventId,
      lateness: this.#lateness.summary(),
      failure: this.#failure,
      created_at: this.#createdAt,
      updated_at: this.#updatedAt,
    };
  }

  play(): void {
    const state = transition(this.#state, 'play');
    if (this.#state === 'playing') return;
    const again = this.#state === 'finished';
    // Before the clock runs, so that the first event is not late for want of its body.
    this.#readAhead(again ? 0 : this.#next);
    if (again) {
      this.#moveTo(0n, 0);
      this.#lateness.reset();
    }
    this.#clock.play();
    this.#enter(state);
    this.#awaitNext();
  }

  pause(): void {
    const state = transition(this.#state, 'pause');
    if (this.#state === 'paused') return;
    this.#halt();
    this.#enter(state);
  }

  seek(target: SeekTarget): void {
    const state = transition(this.#state, 'seek');
    const { source, projection } = this.#options;
    const place = placeOf(target, source.timeline, projection);
    if (!place) {
      this.#finish();
      return;
    }
    this.#readAhead(place.index);
    this.#moveTo(place.positionNs, place.index);
    this.#enter(state);
    if (state === 'playing') this.#awaitNext();
  }

  /** Emits `count` events now, whatever their time; a negative count moves back by as many. */
  step(count: number): (ApiEvent & { replay: ReplayedEvent })[] {
    const state = transition(this.#state, count > 0 ? 'step' : 'step_back');
    const { startNs } = this.#options.projection;
    const target = Math.min(Math.max(this.#next + count, 0), this.eventCount);
    // All of them are read before the first is emitted: a step is done whole or not at all.
    const events = Array.from({ length: Math.max(target - this.#next, 0) }, (_, ahead) => {
      const index = this.#next + ahead;
      return { ...this.#event(index), replay: this.#replayed(index, this.#options.now(), 0n) };
    });
    for (const event of events) this.stream.publish('event', stringify(event));
    const at = count > 0 ? target - 1 : target;
    const moved = target !== this.#next;
    if (moved) this.#moveTo(startNs[at]!, target);
    this.#enter(state);
    return events;
  }

  stop(): void {
    const state = transition(this.#state, 'stop');
    if (this.#state === 'stopped') return;
    this.#halt();
    this.#enter(state);
    this.stream.end('stopped');
  }

  close(reason: EndReason): void {
    this.#halt();
    this.stream.close(reason);
  }

  #enter(state: State): void {
    this.#state = state;
    this.#updatedAt = this.#options.wallTime();
    this.stream.publish('state', stringify(this.view()));
    this.stream.flush();
  }

  #moveTo(positionNs: bigint, index: number): void {
    this.#clock.jump(positionNs);
    this.#next = index;
  }

  #halt(): void {
    const positionNs = this.positionNs;
    this.#alarm.clear();
    this.#clock.pause();
    this.#clock.jump(positionNs);
  }

  #finish(): void {
    const first = this.#state !== 'finished';
    this.#halt();
    this.#moveTo(this.#options.projection.durationNs, this.eventCount);
    this.#enter('finished');
    if (first) this.stream.end('finished');
  }

  /** Nobody asked for it, so nobody gets the error but the session itself. */
  #fail(error: unknown): void {
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
      this.#readAhead(this.#next);
    } catch (error) {
      this.#fail(error);
    }
  }

  #emitDue(): void {
    const { projection, now, onPlayed } = this.#options;
    for (let burst = 0; burst < BURST_EVENTS_MAX && this.#next < this.eventCount; burst++) {
      const event = this.#event(this.#next);
      const dueNs = this.#clock.dueAt(projection.startNs[this.#next]!);
      const latenessNs = now() - dueNs;
      if (latenessNs < 0n) return;
      this.stream.publish('event', stringify({ ...event, replay: this.#replayed(this.#next, dueNs, latenessNs) }));
      this.#lateness.record(latenessNs);
      onPlayed?.(latenessNs);
      this.#next++;
    }
  }

  #awaitNext(): void {
    const { projection, now } = this.#options;
    const over = this.#next === this.eventCount;
    const dueNs = this.#clock.dueAt(over ? projection.durationNs : projection.startNs[this.#next]!);
    if (over && dueNs <= now()) this.#finish();
    else this.#alarm.set(dueNs);
  }

  #event(index: number): ApiEvent {
    const { bodies, source, projection } = this.#options;
    return bodies.read(source, recordedIndex(projection, index));
  }

  #readAhead(next: number): void {
    const end = Math.min(next + READ_AHEAD_EVENTS, this.eventCount);
    // After a seek the old mark says nothing.
    let index = this.#readAheadTo > next && this.#readAheadTo <= end ? this.#readAheadTo : next;
    while (index < end) this.#event(index++);
    this.#readAheadTo = end;
  }

  #replayed(index: number, dueNs: bigint, latenessNs: bigint): ReplayedEvent {
    const { source, projection, extraLatencyNs, timeoutNs } = this.#options;
    const offsetNs = projection.startNs[index]!;
    const durationNs = source.timeline.durationsNs[recordedIndex(projection, index)]! + extraLatencyNs;
    return {
      index,
      offset_ns: offsetNs,
      due_ns: dueNs,
      lateness_ns: latenessNs,
      duration_ns: durationNs,
      after_timeout: timeoutNs !== null && offsetNs + durationNs > timeoutNs,
    };
  }
}
