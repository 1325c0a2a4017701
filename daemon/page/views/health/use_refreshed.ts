/** An answer that is asked for again some seconds after each one, however long it takes. */
import { useEffect, useState } from 'preact/hooks';
import type { Failure } from '../../feed/failure.ts';
import { useAnswer } from '../use_answer.ts';

export interface Refreshed<Body> {
  /** The last one, whether or not it is old. */
  body: Body | null;
  /** The page's time of day when it came, UTC. */
  at: string | null;
  /** Whether the answer that should have followed failed, or is late. */
  isOld: boolean;
  failure: Failure | null;
  askAgain: () => void;
}

const REFRESH_MS = 5000;

export function useRefreshed<Body>(ask: (signal: AbortSignal) => Promise<Body>): Refreshed<Body> {
  const [round, setRound] = useState(0);
  const [isLate, setIsLate] = useState(false);
  const { body, failure, isLoading, askAgain } = useAnswer(`${round}`, async (signal) => ({
    body: await ask(signal),
    at: new Date().toISOString().slice(11, 19),
  }));
  useEffect(() => {
    setIsLate(false);
    const timer = setInterval(() => {
      if (isLoading) setIsLate(true);
      else if (!document.hidden) setRound((last) => last + 1);
    }, REFRESH_MS);
    return () => clearInterval(timer);
  }, [isLoading]);
  return { ...(body ?? { body: null, at: null }), failure, isOld: failure !== null || isLate, askAgain };
}
