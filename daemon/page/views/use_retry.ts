/** Asks again where the daemon did not answer, as during its restart. */
import { useEffect, useRef } from 'preact/hooks';
import { type Failure, isPassing } from '../feed/failure.ts';

const RETRY_MS = [1000, 2000, 5000, 10_000] as const;

interface Asked {
  failure: Failure | null;
  isLoading: boolean;
}

/** Waits longer after each failure in a row. */
export function useRetry({ failure, isLoading }: Asked, askAgain: () => void): void {
  const attempts = useRef(0);
  useEffect(() => {
    if (isLoading) return undefined;
    if (!failure || !isPassing(failure)) {
      attempts.current = 0;
      return undefined;
    }
    const waitMs = RETRY_MS[Math.min(attempts.current++, RETRY_MS.length - 1)];
    const timer = window.setTimeout(askAgain, waitMs);
    return () => window.clearTimeout(timer);
  }, [failure, isLoading]);
}
