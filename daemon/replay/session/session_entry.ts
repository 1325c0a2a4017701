/** The daemon's entry for a session, which is either open or only kept. */
import { Problem } from '../../base/problem.ts';
import type { SteadyNow } from '../clock/clock.ts';
import type { KeptRow, KeptSession } from '../kept/kept_session.ts';
import type { Planner } from '../plan/planner.ts';
import type { State } from '../transitions.ts';
import type { Session } from './session.ts';
import { NOT_PLAYED, type SessionView, viewOf } from './session_view.ts';

export interface SessionEntry {
  /** Undefined until a client uses it. */
  session: Session | undefined;
  /** Its state when it was found in the state file, or created. */
  kept: KeptSession;
  /** Why it cannot be opened. */
  failure: string | null;
  opening: Promise<Session> | undefined;
  usedAtNs: bigint;
}

/** A session that may not have been used since the daemon began. */
export interface ListedSession {
  readonly state: State;
  view(): SessionView;
}

/** The wall clock in nanoseconds since the epoch, and a monotonic clock. */
export interface Clocks {
  now: () => bigint;
  steadyNow: SteadyNow;
}

const NS_PER_MS = 1_000_000n;

/** Restores an entry from its row. A session that was playing is paused. */
export function restoredEntry({ session, usedAtMs }: KeptRow, { now, steadyNow }: Clocks): SessionEntry {
  const kept: KeptSession = { ...session, state: session.state === 'playing' ? 'paused' : session.state };
  const unusedNs = now() - BigInt(usedAtMs) * NS_PER_MS;
  // The wall clock may have been set back.
  const usedAtNs = steadyNow() - (unusedNs > 0n ? unusedNs : 0n);
  return { session: undefined, kept, failure: null, opening: undefined, usedAtNs };
}

/** When the session was last used, by the wall clock. */
export function usedAtMs({ usedAtNs }: SessionEntry, { now, steadyNow }: Clocks): number {
  return Number((now() - (steadyNow() - usedAtNs)) / NS_PER_MS);
}

export function listed({ session, kept, failure }: SessionEntry): ListedSession {
  if (session) return session;
  return { state: kept.state, view: () => viewOf({ ...kept, failure: kept.failure ?? failure }, NOT_PLAYED) };
}

/** Marks the sessions whose transaction is not recorded, without opening them: no client may ever use them again. */
export async function findUnrecorded(found: SessionEntry[], planner: Planner, isClosing: () => boolean): Promise<void> {
  const byTransaction = Map.groupBy(found, ({ kept }) => kept.settings.transactionId);
  for (const [transactionId, entries] of byTransaction) {
    // A recording that cannot be read now may be readable when a client opens the session.
    const isRecorded = await planner.has(transactionId).catch(() => true);
    if (isClosing()) return;
    if (!isRecorded) for (const entry of entries) notRecorded(entry);
  }
}

export function notRecorded(entry: SessionEntry): Problem {
  entry.failure = `no event of transaction ${entry.kept.settings.transactionId} is recorded any more`;
  return new Problem('transaction_not_found', entry.failure);
}
