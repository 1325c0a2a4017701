/** Makes sessions on real recordings, with simulated time. */
import type { ServerResponse } from 'node:http';
import { Writable } from 'node:stream';
import type { Sink } from '../../../daemon/base/sse.ts';
import { createScheduledPlayer } from '../../../daemon/replay/clock/player.ts';
import { createScheduler, createTimerWaiter } from '../../../daemon/replay/clock/scheduler.ts';
import { createPlanner, type Planner } from '../../../daemon/replay/plan/planner.ts';
import { openSession, type Session } from '../../../daemon/replay/session/session.ts';
import type { SessionSettings } from '../../../daemon/replay/session/session_view.ts';
import { readEventKey } from '../../../daemon/store/blocks/event.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../../daemon/store/embedded/recordings.ts';
import { recorded, START } from '../recorded.ts';
import { type Frame, framesOf } from './frames.ts';
import { createSimulatedClock } from './simulated_clock.ts';

export const MS = 1_000_000n;
export const FIRST_NS = START + 1n;
export const TRANSACTION = 'tx-1';

export interface PlannedEvent {
  startNs: bigint;
  durationNs?: bigint;
  thread?: number;
  /** A request of a kernel thread that carries data of the transaction. */
  isWrittenBack?: boolean;
}

/** Ten events a millisecond apart, the last 2 ms long; the default recording. */
export const TEN_EVENTS: readonly PlannedEvent[] = Array.from({ length: 10 }, (_, index) => ({
  startNs: BigInt(index) * MS,
  durationNs: index === 9 ? 2n * MS : MS / 2n,
}));

const WRITTEN_BACK = {
  ...{ type: 'block_io', source: 'origin', result: 0n },
  origins: [{ transaction: TRANSACTION, bytes: 512n }],
} as const;

/** The folder of each series of events, which is recorded only once. */
const folders = new Map<readonly PlannedEvent[], string>();

function recordedOnce(planned: readonly PlannedEvent[]): string {
  let folder = folders.get(planned);
  if (!folder) {
    folder = recorded(
      planned.map(({ startNs, durationNs = 0n, thread = 0, isWrittenBack = false }) => {
        const own = { at: FIRST_NS + startNs, duration: durationNs, transaction: TRANSACTION, tid: 10 + thread };
        return isWrittenBack ? { ...own, ...WRITTEN_BACK } : own;
      }),
    );
    folders.set(planned, folder);
  }
  return folder;
}

/** The store of each folder, for the sessions that do not wrap it. */
const stores = new Map<string, Recordings>();

function storeOf(folder: string): Recordings {
  const store = stores.get(folder) ?? openRecordingStore(folder);
  stores.set(folder, store);
  return store;
}

const opened: { close(): unknown }[] = [];
afterEach(() => {
  for (const { close } of opened.splice(0).reverse()) close();
});
afterAll(() => {
  for (const { close } of stores.values()) close();
});

export interface SessionSetting extends Partial<SessionSettings> {
  /** Wraps the recording's store for the session. */
  through?: (store: Recordings) => Recordings;
  /** Time from a command to the start of the clock. */
  leadNs?: bigint;
  /** Awaited before the plan takes a change of latency. */
  beforeChange?: () => Promise<void>;
  /** Whether the planner has not looked at all events yet. */
  isUnknown?: () => boolean;
}

/** `planned` is in recorded order; the first event starts at 0. */
export async function newSession(planned: readonly PlannedEvent[] = TEN_EVENTS, setting: SessionSetting = {}) {
  const { through, beforeChange, isUnknown, leadNs, ...settings } = setting;
  const folder = recordedOnce(planned);
  const store = through ? through(openRecordingStore(folder)) : storeOf(folder);
  const planner = createPlanner(store);
  opened.push(...(through ? [store] : []), planner);
  const clock = createSimulatedClock();
  const scheduler = createScheduler(clock.now, createTimerWaiter(clock.now, clock.timers));
  const options = {
    sessionId: 'session-1',
    settings: { ...DEFAULTS, ...settings },
    leadNs,
    now: clock.now,
    wallTime: () => new Date(Number(clock.now() / MS)).toISOString(),
    scheduler,
    player: createScheduledPlayer(clock.now, scheduler),
    keptTotal: { bytes: 0 },
  };
  const session = await openSession(options, asInThread(planner, { beforeChange, isUnknown }));
  const scan = store.scan({ filter: { transactionId: TRANSACTION }, order: 'asc' });
  const eventIds = [...scan].flatMap((scanned) =>
    Array.from({ length: scanned.block.rowCount }, (_, row) => readEventKey(scanned, row).event_id),
  );
  return { session, clock, eventIds };
}

/** Reports an outline before each answer that may change it, as a planner's thread does, and may delay a change. */
function asInThread(
  planner: Planner,
  slow: { [Name in 'beforeChange' | 'isUnknown']: SessionSetting[Name] | undefined },
): Planner {
  return {
    ...planner,
    async open(request, onOutline) {
      const plan = await planner.open(request, onOutline);
      const outlined = async <Answer>(answer: Answer): Promise<Answer> => {
        onOutline();
        await null;
        return answer;
      };
      return {
        ...plan,
        get outline() {
          return slow.isUnknown?.() ? { ...plan.outline, survey: null } : plan.outline;
        },
        place: async (target) => outlined(await plan.place(target)),
        changeTimeout: async (timeoutNs) => outlined(await plan.changeTimeout(timeoutNs)),
        async changeLatency(fromIndex, change) {
          await slow.beforeChange?.();
          await outlined(await plan.changeLatency(fromIndex, change));
        },
      };
    },
  };
}

const DEFAULTS: SessionSettings = {
  transactionId: TRANSACTION,
  speedFactor: 1,
  extraLatencyNs: 0,
  timeoutNs: null,
  maxGapNs: null,
  clockOffsetsNs: {},
  loop: false,
  only: {},
};

/** A viewer's end of a stream; `full` makes it a viewer that does not read. */
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
  const writeBytes: Sink['writeBytes'] = (bytes, fill) => {
    const frames = Buffer.alloc(bytes);
    fill(frames, 0);
    return writable.write(frames);
  };
  return {
    sink: Object.assign(writable, { writeBytes }) as unknown as Sink & ServerResponse,
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

/** Joins a viewer to a session. */
export function watch(session: Session) {
  const viewer = newSink();
  session.stream.join(viewer.sink, null);
  return {
    frames: (): Frame[] => framesOf(viewer.text),
    indexes: (): number[] =>
      framesOf(viewer.text).flatMap(({ event, data }) => (event === 'event' ? data.replay.index : [])),
    states: (): string[] => framesOf(viewer.text).flatMap(({ event, data }) => (event === 'state' ? data.state : [])),
  };
}
