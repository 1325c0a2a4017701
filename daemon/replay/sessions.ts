/** All replay sessions of the daemon: made, found, counted, and ended when nobody cares for them any more. */
import { randomUUID } from 'node:crypto';
import { Problem } from '../errors.ts';
import type { SteadyNow } from './clock.ts';
import type { CreateRequest } from './contract.ts';
import type { Planner } from './plan/planner.ts';
import { createScheduler } from './scheduler.ts';
import { openSession, type Session } from './session.ts';
import { nodeTimers, type Timers, timerWaiter } from './waiting.ts';

export interface SessionLimits {
  sessionsMax: number;
  /** A session without commands, viewers or play for so long is ended. */
  idleMs: number;
}

export const DEFAULT_LIMITS: SessionLimits = { sessionsMax: 1000, idleMs: 24 * 3_600_000 };

const NS_PER_MS = 1_000_000n;
const SWEEP_NS = 60_000n * NS_PER_MS;
const HEARTBEAT_NS = 15_000n * NS_PER_MS;

export interface SessionsOptions {
  planner: Planner;
  /** Wall clock, nanoseconds since the epoch. */
  now: () => bigint;
  steadyNow?: SteadyNow;
  timers?: Timers;
  limits?: Partial<SessionLimits>;
  /** Called for every event that is played in its time. */
  onPlayed?: ((latenessNs: bigint) => void) | undefined;
}

export interface Sessions {
  create(request: CreateRequest): Promise<Session>;
  /** Counts as use; throws `session_not_found`. */
  get(sessionId: string): Session;
  /** The oldest first. */
  list(): Session[];
  remove(sessionId: string): void;
  /** What a session would come to, without one. */
  whatIf: Planner['whatIf'];
  /** Ends every stream. */
  close(): void;
}

interface Held {
  session: Session;
  usedAtNs: bigint;
}

export function createSessions(options: SessionsOptions): Sessions {
  const { planner, now, steadyNow = process.hrtime.bigint, timers = nodeTimers, onPlayed } = options;
  const { sessionsMax, idleMs } = { ...DEFAULT_LIMITS, ...options.limits };
  const scheduler = createScheduler(steadyNow, timerWaiter(steadyNow, timers));
  const keptTotal = { bytes: 0 };
  const wallTime = () => new Date(Number(now() / NS_PER_MS)).toISOString();

  const held = new Map<string, Held>();
  let beingMade = 0;
  let closed = false;

  async function open(request: CreateRequest): Promise<Session> {
    const sessionId = randomUUID();
    const settings = {
      transactionId: request.transaction_id,
      speedFactor: request.speed_factor,
      extraLatencyNs: Number(request.extra_latency_ns),
      timeoutNs: request.timeout_ns,
      maxGapNs: request.max_gap_ns,
      clockOffsetsNs: request.clock_offsets_ns,
      loop: request.loop,
    };
    const session = await openSession(
      { sessionId, settings, now: steadyNow, wallTime, scheduler, keptTotal, onPlayed },
      planner,
    );
    if (closed) {
      session.close('shutdown');
      throw new Problem('session_not_found', 'the daemon is shutting down');
    }
    if (held.size === 0) startRounds();
    held.set(sessionId, { session, usedAtNs: steadyNow() });
    return session;
  }

  function startRounds(): void {
    sweep.set(steadyNow() + SWEEP_NS);
    heartbeat.set(steadyNow() + HEARTBEAT_NS);
  }

  const sweep = scheduler.alarm(() => {
    const nowNs = steadyNow();
    for (const [sessionId, { session, usedAtNs }] of held) {
      if (session.state === 'playing' || session.stream.viewerCount > 0) held.get(sessionId)!.usedAtNs = nowNs;
      else if (nowNs - usedAtNs >= BigInt(idleMs) * NS_PER_MS) end(sessionId, 'expired');
    }
    if (held.size > 0) sweep.set(nowNs + SWEEP_NS);
  });

  const heartbeat = scheduler.alarm(() => {
    for (const { session } of held.values()) session.stream.heartbeat();
    if (held.size > 0) heartbeat.set(steadyNow() + HEARTBEAT_NS);
  });

  function find(sessionId: string): Held {
    const found = held.get(sessionId);
    if (!found) throw new Problem('session_not_found', `there is no session ${sessionId}`);
    found.usedAtNs = steadyNow();
    return found;
  }

  function end(sessionId: string, reason: 'deleted' | 'expired' | 'shutdown'): void {
    const { session } = held.get(sessionId)!;
    held.delete(sessionId);
    session.close(reason);
  }

  return {
    async create(request) {
      if (held.size + beingMade >= sessionsMax)
        throw new Problem('session_limit', `there are ${sessionsMax} sessions already; delete one first`);
      beingMade++;
      return open(request).finally(() => beingMade--);
    },
    get: (sessionId) => find(sessionId).session,
    whatIf: planner.whatIf,
    list: () => Array.from(held.values(), ({ session }) => session),
    remove(sessionId) {
      find(sessionId);
      end(sessionId, 'deleted');
    },
    close() {
      closed = true;
      for (const sessionId of [...held.keys()]) end(sessionId, 'shutdown');
      scheduler.close();
    },
  };
}
