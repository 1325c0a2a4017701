/** Retries a request if the daemon did not answer, for example during its restart. */
import { useEffect, useRef } from 'preact/hooks';
import { CUT, type Failure, isPassing } from '../api/failure.ts';

const RETRY_MS = [1000, 2000, 5000, 10_000];
/**
 * Waiting times after a cut answer. They are long, because the answer may have cost the daemon much, and may be cut
 * again for the same reason, such as a time limit.
 */
const CUT_RETRY_MS = [1000, 10_000, 60_000, 300_000];

interface RequestState {
  failure: Failure | null;
  isLoading: boolean;
}

/** Retries if a retry may succeed; the wait grows with each failure in a row. */
export function useRetry({ failure, isLoading }: RequestState, askAgain: () => void): void {
  const attempts = useRef(0);
  useEffect(() => {
    if (isLoading) return undefined;
    if (!failure || !isPassing(failure)) {
      attempts.current = 0;
      return undefined;
    }
    const waits = failure.code === CUT ? CUT_RETRY_MS : RETRY_MS;
    const waitMs = waits[Math.min(attempts.current++, waits.length - 1)];
    const timer = window.setTimeout(askAgain, waitMs);
    return () => window.clearTimeout(timer);
  }, [failure, isLoading]);
}
