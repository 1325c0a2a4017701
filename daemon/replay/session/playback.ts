/**
 * Plays the events of a plan by the clock of its session: it loads events ahead, emits them when they are due, and
 * counts how often one was due before it had been loaded. The session decides what follows from the end or a failure.
 */
import { createClock, type SteadyNow } from '../clock/clock.ts';
import { createLateness, type LatenessSummary } from '../clock/lateness.ts';
import type { Scheduler } from '../clock/scheduler.ts';
import type { SeekResult } from '../plan/places.ts';
import type { ReplayPlan } from '../plan/planner.ts';
import { boundOf, countDue, encodeDueEvents, firstToMove, isPlayedOut } from './due.ts';
import { createEventBuffer } from './event_buffer.ts';
import type { SessionSettings } from './session_view.ts';
import type { SessionStream } from './stream.ts';

export interface Playback {
  isRunning(): boolean;
  /** Projected index of the next event. */
  next(): number;
  /** The position is never past an unplayed event, so that a pause at that moment loses none. */
  positionNs(): number;
  /** How punctual it was; `starvations` counts the events that were due before they had been loaded. */
  punctuality(): { lateness: LatenessSummary; starvations: number };
  /** Resolves when the next event is loaded, or known not to exist. */
  load(): Promise<void>;
  /** Starts the clock: the next event may be due at once. */
  start(): void;
  halt(): void;
  moveTo(positionNs: number, index: number): void;
  /** The survey must be done. */
  moveToEnd(): void;
  /** Moves to a place that the plan has found, which may have replaced the plan's layout. */
  seek(place: SeekResult): void;
  /** Moves to the start of another round. */
  rewind(): Promise<void>;
  /** Changes the latency of all events but those that are due very soon; the position stays. */
  changeLatency(extraLatencyNs: number): Promise<void>;
  /** Changes the speed; the position stays. */
  setSpeed(speedFactor: number): void;
  /** Waits for whatever is due next, if the clock is running: a change may have moved it. */
  awaitNext(): void;
  /** Must be called when the plan's outline has changed. */
  outlined(): void;
}

export interface PlaybackOptions {
  plan: ReplayPlan;
  now: SteadyNow;
  scheduler: Scheduler;
  stream: Pick<SessionStream, 'publish' | 'flush'>;
  /** The current settings. */
  settings: () => Pick<SessionSettings, 'speedFactor' | 'timeoutNs'>;
  onPlayed?: ((latenessNs: bigint) => void) | undefined;
  /** Called when the end of the replay is due. */
  onEnd: () => void;
  /** Called when the replay cannot go on. */
  onFailure: (error: unknown) => void;
}

export function createPlayback(options: PlaybackOptions): Playback {
  const { plan, now, scheduler, stream, settings, onEnd, onFailure } = options;
  const window = createEventBuffer({
    plan,
    speedFactor: () => settings().speedFactor,
    onPage: fed,
    onFailure(error) {
      // A failure of a command is reported to the client by that command.
      if (clock.running) onFailure(error);
    },
  });
  const clock = createClock(now, settings().speedFactor);
  const lateness = createLateness(options.onPlayed);
  const alarm = scheduler.alarm(ring);
  let next = 0;
  /** Start of the event before the next one. */
  let passedNs = 0;
  let isStarving = false;
  let starvations = 0;
  /** Events from this index on are being laid out again, and are not played until that is done. */
  let playableEnd = Infinity;

  function ring(): void {
    try {
      emitDue();
      stream.flush();
      awaitNext();
    } catch (error) {
      onFailure(error);
    }
  }

  function emitDue(): void {
    const first = next;
    const end = countDue(window, clock, first, playableEnd, now());
    if (end === first) return;
    const sentNs = now();
    const encoded = encodeDueEvents(window, clock, [first, end], sentNs, settings().timeoutNs);
    stream.publish(end - first === 1 ? 'event' : 'events', encoded, end - first);
    for (let at = first; at < end; at++) lateness.record(sentNs - clock.dueAt(window.startNs(at)!));
    passedNs = window.startNs(end - 1)!;
    next = end;
    window.moveTo(next);
  }

  function awaitNext(): void {
    if (next >= playableEnd) return;
    const startNs = window.startNs(next);
    if (startNs !== undefined) {
      isStarving = false;
      alarm.set(clock.dueAt(startNs));
      return;
    }
    const { survey } = plan.outline;
    const isOver = isPlayedOut(window, plan.outline, next);
    // If the survey is not done yet, `outlined` calls this again.
    if (isOver && survey) {
      const dueNs = clock.dueAt(survey.endNs);
      if (dueNs > now()) alarm.set(dueNs);
      else onEnd();
    } else if (!isOver) isStarving = true;
  }

  /** Called when more events are loaded. */
  function fed(): void {
    if (!clock.running) return;
    const startNs = isStarving ? window.startNs(next) : undefined;
    if (startNs !== undefined && clock.dueAt(startNs) <= now()) starvations++;
    isStarving = false;
    awaitNext();
  }

  function positionNs(): number {
    const boundNs = boundOf(window, plan.outline, next) ?? passedNs;
    return Math.min(Number(clock.positionNs()), boundNs);
  }

  function moveTo(positionNs: number, index: number): void {
    clock.jump(BigInt(positionNs));
    next = index;
    passedNs = positionNs;
    isStarving = false;
    window.moveTo(index);
  }

  function seek({ positionNs, index }: SeekResult): void {
    window.forget(0);
    moveTo(positionNs, index);
  }

  return {
    isRunning: () => clock.running,
    next: () => next,
    positionNs,
    punctuality: () => ({ lateness: lateness.summary(), starvations }),
    async load() {
      window.moveTo(next);
      await window.ready(next);
    },
    start() {
      clock.play();
      awaitNext();
    },
    halt() {
      const atNs = positionNs();
      alarm.clear();
      isStarving = false;
      clock.pause();
      clock.jump(BigInt(atNs));
    },
    moveTo,
    moveToEnd() {
      const { eventCount, survey } = plan.outline;
      moveTo(survey!.endNs, eventCount);
    },
    seek,
    async rewind() {
      const start = await plan.place({ event_index: 0n });
      seek(start!);
      lateness.reset();
    },
    async changeLatency(extraLatencyNs) {
      const from = firstToMove(window, clock, next, now());
      // Events from here on must not be played with their old times, however long the plan takes.
      playableEnd = from;
      try {
        await plan.changeLatency(from, extraLatencyNs);
        window.forget(from);
      } finally {
        playableEnd = Infinity;
        if (clock.running) awaitNext();
      }
      window.moveTo(next);
    },
    setSpeed(speedFactor) {
      const atNs = positionNs();
      clock.setSpeed(speedFactor);
      // An overdue event becomes due now: the new speed would otherwise change how late it is.
      clock.jump(BigInt(atNs));
    },
    awaitNext() {
      if (clock.running) awaitNext();
    },
    outlined() {
      if (clock.running && !isStarving) awaitNext();
    },
  };
}
