/** All replay sessions of the daemon. This module creates, finds, limits and saves sessions, and ends idle ones. */
import { randomUUID } from 'node:crypto';
import { availableParallelism } from 'node:os';
import type { Logger } from 'pino';
import { Problem } from '../../base/problem.ts';
import type { CreateRequest } from '../../contract/replay_requests.ts';
import type { SessionState } from '../../contract/transitions.ts';
import type { SteadyNow } from '../clock/clock.ts';
import { createScheduledPlayer, createThreadPlayer, nativeClock, type Player } from '../clock/player.ts';
import {
  createNodeTimers,
  createScheduler,
  createTimerWaiter,
  type Scheduler,
  type Timers,
} from '../clock/scheduler.ts';
import { createKeeper } from '../persistence/keeper.ts';
import type { KeptRow, KeptSession } from '../persistence/kept_session.ts';
import type { StoredPlace } from '../persistence/state_file.ts';
import type { KeptState } from '../persistence/state_thread.ts';
import type { AppliedOffsets } from '../plan/clock_offsets.ts';
import type { Outline } from '../plan/plan.ts';
import type { Planner } from '../plan/planner.ts';
import { openSession, reopenSession, type Session } from './session.ts';
import {
  buildSessionView,
  type ComingChange,
  createClosedProblem,
  findLayoutChange,
  NOT_PLAYED,
  type SessionSettings,
  type SessionView,
} from './session_view.ts';
import type { EndReason } from './stream.ts';

export interface SessionLimits {
  sessionsMax: number;
  /**
   * Maximum number of events per second that all sessions together play; if undefined, the limit is measured on this
   * host.
   */
  replayRateMax: number | undefined;
  /** Time without commands, viewers or playback after which a session is ended. */
  idleMs: number;
}

export const DEFAULT_LIMITS: SessionLimits = { sessionsMax: 1000, replayRateMax: undefined, idleMs: 24 * 3_600_000 };

const NS_PER_MS = 1_000_000n;
const SWEEP_NS_MAX = 60_000n * NS_PER_MS;
const SWEEP_NS_MIN = 1_000n * NS_PER_MS;
/**
 * Time from a command to the start of the clock, long enough to prepare the first frames even while other sessions are
 * served.
 */
const LEAD_NS = 5n * NS_PER_MS;
const HEARTBEAT_NS = 15_000n * NS_PER_MS;

export interface SessionsOptions {
  planner: Planner;
  /** Returns the wall-clock time in nanoseconds since the epoch. */
  now: () => bigint;
  steadyNow?: SteadyNow;
  timers?: Timers;
  limits?: Partial<SessionLimits>;
  /** Time from a command to the start of a session's clock. */
  leadNs?: bigint;
  /** Called for every event that the clock plays; steps do not count. */
  onPlayed?: ((latenessNs: number) => void) | undefined;
  /**
   * The state file that keeps sessions, and the sessions that it contains. If undefined, sessions end with the daemon.
   */
  state?: KeptState | undefined;
  log?: Pick<Logger, 'info' | 'error'> | undefined;
}

/** Whether sessions outlive the daemon. */
export interface Keeping {
  kept: boolean;
  /** Why writing changes currently fails; null if it works. */
  failure: string | null;
}

/** A request for a session without its clock offsets, which may have to be looked up. */
export type NewSession = Omit<CreateRequest, 'clock_offsets_ns'>;

export interface Sessions {
  /** Creates a session with offsets that never change. Resolves when the session is saved in the state file. */
  create(request: NewSession, offsets?: AppliedOffsets): Promise<Session>;
  /** Finds a session, and marks it as used; throws `session_not_found`. */
  get(sessionId: string): ListedSession;
  /** Like `get`, but the session is ready for commands. Also rejects when the transaction is not recorded any more. */
  open(sessionId: string): Promise<Session>;
  /** Resolves when all earlier changes are saved, or when writing them failed, which `keeping` shows. */
  save(): Promise<void>;
  /** All sessions, the oldest first. */
  list(): ListedSession[];
  /** Resolves when the session is removed from the state file. */
  remove(sessionId: string): Promise<void>;
  /** Computes the effect of extra latency without creating a session. */
  whatIf: Planner['whatIf'];
  curves: Planner['curves'];
  readonly keeping: Keeping;
  /** Ends every stream at once; resolves when all sessions are saved. */
  close(): Promise<void>;
}

export function createSessions(options: SessionsOptions): Sessions {
  const { planner, now, steadyNow = process.hrtime.bigint, leadNs = LEAD_NS, onPlayed, state, log } = options;
  const { sessionsMax, replayRateMax = measureRate(), idleMs } = { ...DEFAULT_LIMITS, ...options.limits };
  const [idleNs, sweepNs] = computeIdleSpans(idleMs);
  const [scheduler, player] = createClockwork(steadyNow, options.timers);
  const keptTotal = { bytes: 0 };
  const wallTime = () => new Date(Number(now() / NS_PER_MS)).toISOString();

  const clocks: Clocks = { now, steadyNow };
  const held = new Map<string, SessionEntry>();
  const keeper =
    state &&
    createKeeper({
      state,
      findKeptRow,
      playing: listPlaying,
      now: steadyNow,
      alarm: scheduler.createAlarm,
      onFailure: (why) => tell(log, why),
    });
  let beingMade = 0;
  let closing: Promise<void> | undefined;

  const buildSurroundings = (sessionId: string) => ({
    now: steadyNow,
    wallTime,
    scheduler,
    player,
    keptTotal,
    leadNs,
    onPlayed,
    onChange: () => keeper?.markChanged(sessionId),
    admit: (change?: ComingChange) => admit(held, sessionId, replayRateMax, change),
  });

  function rethrow(error: unknown): never {
    // At a shutdown, waiting requests fail because the planner has ended; the client gets the reason instead.
    throw closing ? createShutdownProblem() : error;
  }

  async function openNew(request: NewSession, offsets: AppliedOffsets): Promise<Session> {
    const sessionId = randomUUID();
    const settings = {
      transactionId: request.transaction_id,
      speedFactor: request.speed_factor,
      extraLatencyNs: Number(request.extra_latency_ns),
      timeoutNs: request.timeout_ns,
      maxGapNs: request.max_gap_ns,
      ...offsets,
      loop: request.loop,
      only: request.only,
    };
    const session = await openSession({ ...buildSurroundings(sessionId), sessionId, settings }, planner).catch(rethrow);
    if (closing) {
      session.close('shutdown');
      throw createShutdownProblem();
    }
    hold(sessionId, { session, kept: session.kept(), failure: null, opening: undefined, usedAtNs: steadyNow() });
    keeper?.markChanged(sessionId);
    return session;
  }

  async function openAgain(sessionId: string, entry: SessionEntry): Promise<Session> {
    const session = await reopenSession(buildSurroundings(sessionId), planner, entry.kept).catch((error) => {
      if (error instanceof Problem && error.code === 'transaction_not_found') throw markUnrecorded(entry);
      return rethrow(error);
    });
    if (held.get(sessionId) !== entry || closing) {
      session.close(closing ? 'shutdown' : 'deleted');
      throw closing ? createShutdownProblem() : createNotFoundProblem(sessionId);
    }
    entry.session = session;
    entry.failure = null;
    // The session is saved before it sends any frame, so that the next daemon does not use the ids of its frames again.
    keeper?.markChanged(sessionId);
    await keeper?.save();
    return session;
  }

  function hold(sessionId: string, entry: SessionEntry): void {
    if (held.size === 0) {
      sweep.set(steadyNow() + sweepNs);
      heartbeat.set(steadyNow() + HEARTBEAT_NS);
    }
    held.set(sessionId, entry);
  }

  const sweep = scheduler.createAlarm(() => {
    const nowNs = steadyNow();
    for (const [sessionId, entry] of held) {
      const { session, usedAtNs } = entry;
      if (session && (session.state === 'playing' || session.stream.viewerCount > 0)) entry.usedAtNs = nowNs;
      else if (nowNs - usedAtNs >= idleNs) end(sessionId, 'expired');
      if (nowNs - entry.usedAtNs < sweepNs) keeper?.markChanged(sessionId);
    }
    if (held.size > 0) sweep.set(nowNs + sweepNs);
  });

  const heartbeat = scheduler.createAlarm(() => {
    for (const { session } of held.values()) session?.stream.sendHeartbeat();
    if (held.size > 0) heartbeat.set(steadyNow() + HEARTBEAT_NS);
  });

  function find(sessionId: string): SessionEntry {
    if (closing) throw createShutdownProblem();
    const found = held.get(sessionId);
    if (!found) throw createNotFoundProblem(sessionId);
    found.usedAtNs = steadyNow();
    return found;
  }

  function end(sessionId: string, reason: EndReason): void {
    const { session } = held.get(sessionId)!;
    held.delete(sessionId);
    session?.close(reason);
    keeper?.markChanged(sessionId);
  }

  function findKeptRow(sessionId: string): KeptRow | undefined {
    const entry = held.get(sessionId);
    return entry && { session: entry.session?.kept() ?? entry.kept, usedAtMs: computeUsedAtMs(entry, clocks) };
  }

  function listPlaying(): StoredPlace[] {
    return [...held.values()].flatMap((entry) =>
      entry.session?.state === 'playing' ? { ...entry.session.place(), usedAtMs: computeUsedAtMs(entry, clocks) } : [],
    );
  }

  for (const row of state?.rows ?? []) hold(row.session.sessionId, restoreEntry(row, clocks));
  void findUnrecorded([...held.values()], planner, () => closing !== undefined);

  return {
    async create(request, offsets = { clockOffsetsNs: {} }) {
      if (closing) throw createShutdownProblem();
      if (held.size + beingMade >= sessionsMax)
        throw new Problem('session_limit', `there are ${sessionsMax} sessions already; delete one first`);
      beingMade++;
      const session = await openNew(request, offsets).finally(() => beingMade--);
      await keeper?.save();
      return session;
    },
    get: (sessionId) => toListedSession(find(sessionId)),
    async open(sessionId) {
      const entry = find(sessionId);
      if (entry.session) return entry.session;
      entry.opening ??= openAgain(sessionId, entry).finally(() => {
        entry.opening = undefined;
      });
      return entry.opening;
    },
    save: async () => keeper?.save(),
    ...createProjections(planner, rethrow),
    list: () => Array.from(held.values(), toListedSession),
    async remove(sessionId) {
      find(sessionId);
      end(sessionId, 'deleted');
      await keeper?.save();
    },
    get keeping() {
      return { kept: keeper !== undefined, failure: keeper?.failure ?? null };
    },
    close() {
      closing ??= Promise.resolve(keeper?.close());
      for (const { session } of held.values()) session?.close('shutdown');
      player.close();
      scheduler.close();
      return closing;
    },
  };
}

function createProjections(
  planner: Planner,
  orShutdown: (error: unknown) => never,
): Pick<Sessions, 'whatIf' | 'curves'> {
  return {
    whatIf: (request, signal) => planner.whatIf(request, signal).catch(orShutdown),
    curves: (request, signal) => planner.curves(request, signal).catch(orShutdown),
  };
}

/** Creates the scheduler and the player. If the timers are simulated, the player runs on simulated time too. */
function createClockwork(now: SteadyNow, timers: Timers | undefined): [Scheduler, Player] {
  const scheduler = createScheduler(now, createTimerWaiter(now, timers ?? createNodeTimers()));
  return [scheduler, timers ? createScheduledPlayer(now, scheduler) : createThreadPlayer()];
}

/** Computes the idle time after which an unused session ends, and the interval at which idle times are checked. */
function computeIdleSpans(idleMs: number): [idleNs: bigint, sweepNs: bigint] {
  const idleNs = BigInt(Math.round(idleMs * 1e6));
  return [idleNs, idleNs > SWEEP_NS_MAX ? SWEEP_NS_MAX : idleNs < SWEEP_NS_MIN ? SWEEP_NS_MIN : idleNs];
}

const createShutdownProblem = () => createClosedProblem('shutdown');

function createNotFoundProblem(sessionId: string): Problem {
  return new Problem('session_not_found', `there is no session ${sessionId}`);
}

function tell(log: SessionsOptions['log'], failure: string | null): void {
  if (failure === null) log?.info('changes of sessions are kept again');
  else log?.error({ reason: failure }, 'changes of sessions cannot be kept; they would be lost with the daemon');
}

/* Admission control: limits the event rate of all playing sessions together. */

type LayoutSettings = Pick<SessionSettings, 'extraLatencyNs' | 'maxGapNs' | 'only'>;

const NS_PER_SECOND = 1e9;
/** Cost of starting a round, expressed in events: a state frame is sent, and the first page is read again. */
const ROUND_EVENTS = 100;

/** Typical size of an event's frame. */
const FRAME_BYTES = 700;
/**
 * CPU time of an event in all threads of the daemon, as a multiple of the time it takes to send and receive its frame.
 */
const EVENT_COST = 4;
/** Share of all CPUs that replays may use. */
const CPU_SHARE = 0.75;
const RATE_STEP = 10_000;

/**
 * Measures how many events per second this host can play, in steps of 10,000; the measurement takes some milliseconds.
 */
function measureRate(): number {
  const sendingNs = nativeClock.measureSending(new Uint8Array(FRAME_BYTES));
  if (sendingNs === undefined) return RATE_STEP;
  const rate = (availableParallelism() * CPU_SHARE * NS_PER_SECOND) / (sendingNs * EVENT_COST);
  return Math.max(Math.floor(rate / RATE_STEP), 1) * RATE_STEP;
}

interface PlayingSession {
  readonly state: SessionState;
  /** The change that is being applied. */
  readonly coming: ComingChange | undefined;
  /** When the last event would end if all events were laid out with the latest settings; undefined if not computed. */
  readonly layoutEndNs: number | undefined;
  kept(): Pick<KeptSession, 'outline' | 'settings'>;
}

/** Computes how many events a session plays per second; without looping, that is at most its event count. */
function computeEventRate(session: PlayingSession, change: ComingChange = {}): number {
  const { outline, settings } = session.kept();
  const { eventCount } = outline;
  const { speedFactor = settings.speedFactor, loop = settings.loop } = change;
  const layout = findLayoutChange(settings, change);
  const endNs = layout ? change.endNs : session.layoutEndNs;
  const shortestNs = Math.max(endNs ?? lowerBoundNs(outline, settings, layout), 1);
  const roundsPerSecond = (NS_PER_SECOND / shortestNs) * speedFactor;
  return loop ? (eventCount + ROUND_EVENTS) * roundsPerSecond : Math.min(eventCount * roundsPerSecond, eventCount);
}

/** Returns the duration of the replay, or a lower bound of it if events are being or will be laid out again. */
function lowerBoundNs(outline: Outline, settings: LayoutSettings, coming: LayoutSettings | undefined): number {
  const { eventCount, recordedDurationNs, survey, latency } = outline;
  if (survey && latency.length === 1 && !coming) return survey.endNs;
  const { maxGapNs } = coming ?? settings;
  const recordedNs = maxGapNs === null ? recordedDurationNs : 0;
  // The effect of another gap limit is unknown until events are laid out with it.
  const hasOther = latency.some(
    (each) => (each.maxGapNs === undefined ? settings.maxGapNs : each.maxGapNs) !== maxGapNs,
  );
  if (!survey || hasOther) return recordedNs;
  const mostLatencyNs = Math.max(...latency.map((each) => each.extraLatencyNs));
  return Math.max(survey.endNs - eventCount * mostLatencyNs, recordedNs);
}

type Playing = ReadonlyMap<string, { session: PlayingSession | undefined }>;

/**
 * Throws `replay_capacity` when all sessions together would play more events per second than `max`. A session that
 * plays alone has no limit, because it delays no other session. Even if it exceeds `max`, half of `max` is left for
 * other sessions. A change to a lower rate is always admitted.
 */
function admit(held: Playing, sessionId: string, max: number, change?: ComingChange): void {
  let [others, own, wanted] = [0, 0, 0];
  for (const [id, { session }] of held) {
    if (!session || (id !== sessionId && session.state !== 'playing')) continue;
    const now = session.state === 'playing' ? computeEventRate(session) : 0;
    if (id !== sessionId) others += computeRateShare(Math.max(now, computeEventRate(session, session.coming)), max);
    else [own, wanted] = [now, computeEventRate(session, change)];
  }
  if (others === 0 || wanted <= own || others + wanted <= max) return;
  const [asked, playing] = [wanted, others].map((rate) => Math.ceil(rate).toLocaleString('en'));
  const detail =
    `the session would play ${asked} events a second, and others play ${playing}; all together may play ` +
    `${max.toLocaleString('en')} (--replay-rate-max): lower its speed_factor, pause others, or wait until they end`;
  throw new Problem('replay_capacity', detail);
}

/**
 * Computes the rate that a session takes from the other sessions. A session above `max` takes only half of `max`,
 * because the player serves sessions in turn.
 */
function computeRateShare(rate: number, max: number): number {
  return rate > max ? max / 2 : rate;
}

/* The daemon's entry for a session, which is either open or only saved in the state file. */

interface SessionEntry {
  /** The open session; undefined until a client uses the session. */
  session: Session | undefined;
  /** The session's data as read from the state file, or as of the session's creation. */
  kept: KeptSession;
  /** Why opening the session fails. */
  failure: string | null;
  opening: Promise<Session> | undefined;
  usedAtNs: bigint;
}

/** A session that may not have been used since the daemon started. */
interface ListedSession {
  readonly state: SessionState;
  view(): SessionView;
}

/** The wall clock in nanoseconds since the epoch, and a monotonic clock. */
interface Clocks {
  now: () => bigint;
  steadyNow: SteadyNow;
}

/** Restores an entry from its row. A session that was playing is paused. */
function restoreEntry({ session, usedAtMs }: KeptRow, { now, steadyNow }: Clocks): SessionEntry {
  const kept: KeptSession = { ...session, state: session.state === 'playing' ? 'paused' : session.state };
  const unusedNs = now() - BigInt(usedAtMs) * NS_PER_MS;
  // `unusedNs` is negative if the wall clock was set back.
  const usedAtNs = steadyNow() - (unusedNs > 0n ? unusedNs : 0n);
  return { session: undefined, kept, failure: null, opening: undefined, usedAtNs };
}

/** When the session was last used, by the wall clock. */
function computeUsedAtMs({ usedAtNs }: SessionEntry, { now, steadyNow }: Clocks): number {
  return Number((now() - (steadyNow() - usedAtNs)) / NS_PER_MS);
}

function toListedSession({ session, kept, failure }: SessionEntry): ListedSession {
  if (session) return session;
  return { state: kept.state, view: () => buildSessionView({ ...kept, failure: kept.failure ?? failure }, NOT_PLAYED) };
}

/**
 * Marks the sessions whose transaction is not recorded, without opening them, because clients may never use them again.
 */
async function findUnrecorded(found: SessionEntry[], planner: Planner, isClosing: () => boolean): Promise<void> {
  const byTransaction = Map.groupBy(found, ({ kept }) => kept.settings.transactionId);
  for (const [transactionId, entries] of byTransaction) {
    // A recording that is unreadable now may be readable when a client opens the session.
    const isRecorded = await planner.has(transactionId).catch(() => true);
    if (isClosing()) return;
    if (!isRecorded) for (const entry of entries) markUnrecorded(entry);
  }
}

function markUnrecorded(entry: SessionEntry): Problem {
  entry.failure = `no event of transaction ${entry.kept.settings.transactionId} is recorded any more`;
  return new Problem('transaction_not_found', entry.failure);
}
