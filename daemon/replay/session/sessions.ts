/** All replay sessions of the daemon: it creates, finds, limits and keeps them, and ends those that are idle. */
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { Problem } from '../../base/problem.ts';
import type { SteadyNow } from '../clock/clock.ts';
import { createScheduledPlayer, createThreadPlayer, type Player } from '../clock/player.ts';
import { createScheduler, type Scheduler } from '../clock/scheduler.ts';
import { createNodeTimers, type Timers, timerWaiter } from '../clock/waiting.ts';
import type { CreateRequest } from '../contract.ts';
import { createKeeper } from '../kept/keeper.ts';
import type { KeptRow } from '../kept/kept_session.ts';
import type { StoredPlace } from '../kept/state_file.ts';
import type { KeptState } from '../kept/state_thread.ts';
import type { AppliedOffsets } from '../plan/clock_offsets.ts';
import type { Planner } from '../plan/planner.ts';
import { admit, measuredRate } from './capacity.ts';
import { openSession, reopenSession } from './open_session.ts';
import type { Session } from './session.ts';
import {
  type Clocks,
  findUnrecorded,
  type ListedSession,
  listed,
  notRecorded,
  restoredEntry,
  type SessionEntry,
  usedAtMs,
} from './session_entry.ts';
import { type ComingChange, closedProblem } from './session_options.ts';
import type { EndReason } from './stream.ts';

export interface SessionLimits {
  sessionsMax: number;
  /** Limit of the events per second that all sessions play together; undefined: what this host is measured to play. */
  replayRateMax: number | undefined;
  /** A session without commands, viewers or play for this long is ended. */
  idleMs: number;
}

export const DEFAULT_LIMITS: SessionLimits = { sessionsMax: 1000, replayRateMax: undefined, idleMs: 24 * 3_600_000 };

const NS_PER_MS = 1_000_000n;
const SWEEP_NS_MAX = 60_000n * NS_PER_MS;
const SWEEP_NS_MIN = 1_000n * NS_PER_MS;
/** In this time the first frames are written also while other sessions are served. */
const LEAD_NS = 5n * NS_PER_MS;
const HEARTBEAT_NS = 15_000n * NS_PER_MS;

export interface SessionsOptions {
  planner: Planner;
  /** Wall clock, nanoseconds since the epoch. */
  now: () => bigint;
  steadyNow?: SteadyNow;
  timers?: Timers;
  limits?: Partial<SessionLimits>;
  /** Time from a command to the start of a session's clock. */
  leadNs?: bigint;
  /** Called for every event that the clock plays; steps do not count. */
  onPlayed?: ((latenessNs: number) => void) | undefined;
  /** The state file that keeps sessions, with those it contains; without it sessions end with the daemon. */
  state?: KeptState | undefined;
  log?: Pick<Logger, 'info' | 'error'> | undefined;
}

/** Whether sessions outlive the daemon. */
export interface Keeping {
  kept: boolean;
  /** Why changes currently cannot be written; null when they can. */
  failure: string | null;
}

/** What is asked for, except for offsets of clocks, which may have to be looked up. */
export type NewSession = Omit<CreateRequest, 'clock_offsets_ns'>;

export interface Sessions {
  /** Resolves when the session is kept, with these offsets for as long as it lives. */
  create(request: NewSession, offsets?: AppliedOffsets): Promise<Session>;
  /** The call counts as use; throws `session_not_found`. */
  get(sessionId: string): ListedSession;
  /** The same, ready for commands. It also rejects when the transaction is not recorded any more. */
  open(sessionId: string): Promise<Session>;
  /** Resolves when all earlier changes are kept or could not be written, which `keeping` shows. */
  saved(): Promise<void>;
  /** All sessions, the oldest first. */
  list(): ListedSession[];
  /** Resolves when the session is removed from the state file. */
  remove(sessionId: string): Promise<void>;
  /** Computes the outcome of a session without creating one. */
  whatIf: Planner['whatIf'];
  curves: Planner['curves'];
  readonly keeping: Keeping;
  /** Ends every stream at once; resolves when all sessions are kept. */
  close(): Promise<void>;
}

export function createSessions(options: SessionsOptions): Sessions {
  const { planner, now, steadyNow = process.hrtime.bigint, leadNs = LEAD_NS, onPlayed, state, log } = options;
  const { sessionsMax, replayRateMax = measuredRate(), idleMs } = { ...DEFAULT_LIMITS, ...options.limits };
  const [idleNs, sweepNs] = idleSpans(idleMs);
  const [scheduler, player] = clockwork(steadyNow, options.timers);
  const keptTotal = { bytes: 0 };
  const wallTime = () => new Date(Number(now() / NS_PER_MS)).toISOString();

  const clocks: Clocks = { now, steadyNow };
  const held = new Map<string, SessionEntry>();
  const keeper =
    state &&
    createKeeper({ state, rowOf, playing, now: steadyNow, alarm: scheduler.alarm, onFailure: (why) => tell(log, why) });
  let beingMade = 0;
  let closing: Promise<void> | undefined;

  const surroundingsOf = (sessionId: string) => ({
    ...{ now: steadyNow, wallTime, scheduler, player, keptTotal, leadNs, onPlayed },
    onChange: () => keeper?.changed(sessionId),
    admit: (change?: ComingChange) => admit(held, sessionId, replayRateMax, change),
  });

  function orShutdown(error: unknown): never {
    // The planner ends before the requests that wait for it, so its error is the shutdown.
    throw closing ? shuttingDown() : error;
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
    const session = await openSession({ ...surroundingsOf(sessionId), sessionId, settings }, planner).catch(orShutdown);
    if (closing) {
      session.close('shutdown');
      throw shuttingDown();
    }
    hold(sessionId, { session, kept: session.kept(), failure: null, opening: undefined, usedAtNs: steadyNow() });
    keeper?.changed(sessionId);
    return session;
  }

  async function openAgain(sessionId: string, entry: SessionEntry): Promise<Session> {
    const session = await reopenSession(surroundingsOf(sessionId), planner, entry.kept).catch((error) => {
      if (error instanceof Problem && error.code === 'transaction_not_found') throw notRecorded(entry);
      return orShutdown(error);
    });
    if (held.get(sessionId) !== entry || closing) {
      session.close(closing ? 'shutdown' : 'deleted');
      throw closing ? shuttingDown() : notFound(sessionId);
    }
    entry.session = session;
    entry.failure = null;
    // Saved before it sends any frame: the next daemon must not use the ids of its frames again.
    keeper?.changed(sessionId);
    await keeper?.saved();
    return session;
  }

  function hold(sessionId: string, entry: SessionEntry): void {
    if (held.size === 0) {
      sweep.set(steadyNow() + sweepNs);
      heartbeat.set(steadyNow() + HEARTBEAT_NS);
    }
    held.set(sessionId, entry);
  }

  const sweep = scheduler.alarm(() => {
    const nowNs = steadyNow();
    for (const [sessionId, entry] of held) {
      const { session, usedAtNs } = entry;
      if (session && (session.state === 'playing' || session.stream.viewerCount > 0)) entry.usedAtNs = nowNs;
      else if (nowNs - usedAtNs >= idleNs) end(sessionId, 'expired');
      if (nowNs - entry.usedAtNs < sweepNs) keeper?.changed(sessionId);
    }
    if (held.size > 0) sweep.set(nowNs + sweepNs);
  });

  const heartbeat = scheduler.alarm(() => {
    for (const { session } of held.values()) session?.stream.heartbeat();
    if (held.size > 0) heartbeat.set(steadyNow() + HEARTBEAT_NS);
  });

  function find(sessionId: string): SessionEntry {
    if (closing) throw shuttingDown();
    const found = held.get(sessionId);
    if (!found) throw notFound(sessionId);
    found.usedAtNs = steadyNow();
    return found;
  }

  function end(sessionId: string, reason: EndReason): void {
    const { session } = held.get(sessionId)!;
    held.delete(sessionId);
    session?.close(reason);
    keeper?.changed(sessionId);
  }

  function rowOf(sessionId: string): KeptRow | undefined {
    const entry = held.get(sessionId);
    return entry && { session: entry.session?.kept() ?? entry.kept, usedAtMs: usedAtMs(entry, clocks) };
  }

  function playing(): StoredPlace[] {
    return [...held.values()].flatMap((entry) =>
      entry.session?.state === 'playing' ? { ...entry.session.place(), usedAtMs: usedAtMs(entry, clocks) } : [],
    );
  }

  for (const row of state?.rows ?? []) hold(row.session.sessionId, restoredEntry(row, clocks));
  void findUnrecorded([...held.values()], planner, () => closing !== undefined);

  return {
    async create(request, offsets = { clockOffsetsNs: {} }) {
      if (closing) throw shuttingDown();
      if (held.size + beingMade >= sessionsMax)
        throw new Problem('session_limit', `there are ${sessionsMax} sessions already; delete one first`);
      beingMade++;
      const session = await openNew(request, offsets).finally(() => beingMade--);
      await keeper?.saved();
      return session;
    },
    get: (sessionId) => listed(find(sessionId)),
    async open(sessionId) {
      const entry = find(sessionId);
      if (entry.session) return entry.session;
      entry.opening ??= openAgain(sessionId, entry).finally(() => {
        entry.opening = undefined;
      });
      return entry.opening;
    },
    saved: async () => keeper?.saved(),
    ...projections(planner, orShutdown),
    list: () => Array.from(held.values(), listed),
    async remove(sessionId) {
      find(sessionId);
      end(sessionId, 'deleted');
      await keeper?.saved();
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

function projections(planner: Planner, orShutdown: (error: unknown) => never): Pick<Sessions, 'whatIf' | 'curves'> {
  return {
    whatIf: (request, signal) => planner.whatIf(request, signal).catch(orShutdown),
    curves: (request, signal) => planner.curves(request, signal).catch(orShutdown),
  };
}

/** Simulated timers have a player of their time. */
function clockwork(now: SteadyNow, timers: Timers | undefined): [Scheduler, Player] {
  const scheduler = createScheduler(now, timerWaiter(now, timers ?? createNodeTimers()));
  return [scheduler, timers ? createScheduledPlayer(now, scheduler) : createThreadPlayer()];
}

/** The idle time after which an unused session ends, and the interval of the check. */
function idleSpans(idleMs: number): [idleNs: bigint, sweepNs: bigint] {
  const idleNs = BigInt(Math.round(idleMs * 1e6));
  return [idleNs, idleNs > SWEEP_NS_MAX ? SWEEP_NS_MAX : idleNs < SWEEP_NS_MIN ? SWEEP_NS_MIN : idleNs];
}

const shuttingDown = () => closedProblem('shutdown');

function notFound(sessionId: string): Problem {
  return new Problem('session_not_found', `there is no session ${sessionId}`);
}

function tell(log: SessionsOptions['log'], failure: string | null): void {
  if (failure === null) log?.info('changes of sessions are kept again');
  else log?.error({ reason: failure }, 'changes of sessions cannot be kept; they would be lost with the daemon');
}
