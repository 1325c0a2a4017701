/** Opens a session for a transaction, new or from its kept state. */
import type { KeptSession } from '../kept/kept_session.ts';
import type { LatencyChange } from '../plan/merge.ts';
import type { Planner } from '../plan/planner.ts';
import { Session } from './session.ts';
import { planRequestOf, type SessionOptions } from './session_options.ts';

/** Rejects with a Problem when the transaction cannot be played. */
export async function openSession(options: SessionOptions, planner: Planner): Promise<Session> {
  const { extraLatencyNs, only } = options.settings;
  return opened(options, planner, [{ fromIndex: 0, extraLatencyNs, only }]);
}

/** Opens a kept session. If it was playing, it is paused. Rejects as `openSession` does. */
export async function reopenSession(
  options: Omit<SessionOptions, 'sessionId' | 'settings'>,
  planner: Planner,
  kept: KeptSession,
): Promise<Session> {
  const { sessionId, settings, outline, life } = kept;
  const again = { ...options, sessionId, settings, life: life + 1 };
  const session = await opened(again, planner, outline.latency);
  try {
    await session.comeBack(kept);
    return session;
  } catch (error) {
    session.close('failed');
    throw error;
  }
}

async function opened(options: SessionOptions, planner: Planner, latency: readonly LatencyChange[]): Promise<Session> {
  let session: Session | undefined;
  const plan = await planner.open(planRequestOf(options.settings, latency), () => session?.outlined());
  session = new Session(options, plan);
  return session;
}
