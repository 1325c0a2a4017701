/** Sessions without a recording: a time line made by hand, bodies made up from it, and time that the test holds. */
import type { ServerResponse } from 'node:http';
import { Writable } from 'node:stream';
import { formatEventId } from '../../agent/recording/event_id.ts';
import type { ApiEvent, SysWriteEvent } from '../../bpf/schema/api.ts';
import type { Sink } from '../../daemon/event_stream.ts';
import type { Bodies } from '../../daemon/replay/bodies.ts';
import { project } from '../../daemon/replay/projection.ts';
import { createScheduler } from '../../daemon/replay/scheduler.ts';
import { Session } from '../../daemon/replay/session.ts';
import type { Timeline } from '../../daemon/replay/timeline.ts';
import { timerWaiter } from '../../daemon/replay/waiting.ts';
import { createSimulatedClock } from './simulated_clock.ts';

export const MS = 1_000_000n;
export const FIRST_NS = 1_763_683_200_000_000_001n;
export const RECORDING_ID = '00000000000000a1';
export const noBreath = async () => {};

export interface PlannedEvent {
  startNs: bigint;
  durationNs?: bigint;
  thread?: number;
}

/** `planned` in recorded order; the first starts at 0. */
export function timelineOf(planned: readonly PlannedEvent[]): Timeline {
  const threads = [...new Set(planned.map(({ thread = 0 }) => thread))];
  return {
    recordingIds: [RECORDING_ID],
    count: planned.length,
    firstTimestampNs: FIRST_NS,
    durationNs: planned.reduce((end, { startNs, durationNs = 0n }) => larger(end, startNs + durationNs), 0n),
    startNs: BigUint64Array.from(planned, ({ startNs }) => startNs),
    durationsNs: BigUint64Array.from(planned, ({ durationNs = 0n }) => durationNs),
    thread: Uint32Array.from(planned, ({ thread = 0 }) => threads.indexOf(thread)),
    threadCount: threads.length,
    recording: new Uint16Array(planned.length),
    numbers: BigUint64Array.from(planned, (_, index) => BigInt(index + 1)),
  };
}

export function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

export function eventIdOf(recorded: number): string {
  return formatEventId(RECORDING_ID, BigInt(recorded + 1));
}

function eventOf(timeline: Timeline, recorded: number): ApiEvent {
  const event: SysWriteEvent = {
    event_id: eventIdOf(recorded),
    event_type: 'sys_write',
    timestamp_ns: FIRST_NS + timeline.startNs[recorded]!,
    duration_ns: timeline.durationsNs[recorded]!,
    service_name: 'checkout',
    transaction_id: 'tx-1',
    trace_id: null,
    span_id: null,
    attribution: { source: 'marker', quality: 'exact' },
    node: 'node-a',
    pid: 10,
    tid: 10 + timeline.thread[recorded]!,
    comm: 'node',
    cpu: 0,
    result: 64n,
    error: null,
    syscall: 'write',
    fd: 3,
    file: '/data/a.db',
    file_kind: 'regular',
    bytes_requested: 64n,
  };
  return event;
}

export interface SessionSetting {
  speedFactor?: number;
  extraLatencyNs?: bigint;
  timeoutNs?: bigint | null;
  bodies?: Bodies;
}

/** Ten events a millisecond apart, the last 2 ms long, unless the test needs others. */
export const TEN_EVENTS: readonly PlannedEvent[] = Array.from({ length: 10 }, (_, index) => ({
  startNs: BigInt(index) * MS,
  durationNs: index === 9 ? 2n * MS : MS / 2n,
}));

export async function newSession(planned: readonly PlannedEvent[] = TEN_EVENTS, setting: SessionSetting = {}) {
  const { speedFactor = 1, extraLatencyNs = 0n, timeoutNs = null } = setting;
  const timeline = timelineOf(planned);
  const clock = createSimulatedClock();
  const bodies: Bodies = setting.bodies ?? { read: (_, recorded) => eventOf(timeline, recorded) };
  const session = new Session({
    sessionId: 'session-1',
    source: { transactionId: 'tx-1', timeline },
    projection: await project(timeline, { extraLatencyNs, timeoutNs }, noBreath),
    speedFactor,
    extraLatencyNs,
    timeoutNs,
    bodies,
    now: clock.now,
    wallTime: () => new Date(Number(clock.now() / MS)).toISOString(),
    scheduler: createScheduler(clock.now, timerWaiter(clock.now, clock.timers)),
    keptTotal: { characters: 0 },
  });
  return { session, clock, timeline };
}

/** A viewer's end of a stream; `full` makes it one that does not read. */
export function newSink(full = false) {
  let text = '';
  let pending: (() => void) | undefined;
  const state = { full };
  const writable = new Writable({
    decodeStrings: false,
    highWaterMark: 1,
    write(chunk, _encoding, done) {
      text += chunk;
      if (state.full) pending = done;
      else done();
    },
  });
  return {
    sink: writable as unknown as Sink & ServerResponse,
    get text() {
      return text;
    },
    get ended() {
      return writable.writableEnded;
    },
    get destroyed() {
      return writable.destroyed;
    },
    fill() {
      state.full = true;
    },
    /** Reads again. */
    drain() {
      state.full = false;
      pending?.();
      pending = undefined;
    },
  };
}
