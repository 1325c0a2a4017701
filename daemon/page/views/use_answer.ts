/** Keeps an answer of the daemon in a component: the old answer stays until the new one arrives. */
import { useEffect, useState } from 'preact/hooks';
import { type Failure, toFailure } from '../api/failure.ts';
import { useRetry } from './use_retry.ts';

export interface Answer<Body> {
  body: Body | null;
  /** Whether `body` answers an earlier request. */
  isOld: boolean;
  failure: Failure | null;
  /** Whether the page waits for another answer. */
  isLoading: boolean;
  askAgain: () => void;
}

interface AnswerState<Body> extends Pick<Answer<Body>, 'body' | 'failure' | 'isLoading'> {
  /** Key of the request that `body` answers. */
  of: string | null;
}

/**
 * Sends the request at first and whenever `key` changes, and cancels the previous request. If the daemon is
 * unreachable, the request is retried automatically.
 */
export function useAnswer<Body>(key: string | null, ask: (signal: AbortSignal) => Promise<Body>): Answer<Body> {
  const [state, setState] = useState<AnswerState<Body>>({ body: null, of: null, failure: null, isLoading: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (key === null) return undefined;
    const closing = new AbortController();
    setState((before) => ({ ...before, isLoading: true }));
    ask(closing.signal).then(
      (body) => {
        if (closing.signal.aborted) return;
        setState({ body, of: key, failure: null, isLoading: false });
      },
      (error: unknown) => {
        if (closing.signal.aborted) return;
        setState((before) => ({ ...before, failure: toFailure(error), isLoading: false }));
      },
    );
    return () => closing.abort();
  }, [key, round]);
  const askAgain = () => setRound((last) => last + 1);
  useRetry(state, askAgain);
  const { of, ...answer } = state;
  const isOld = answer.body !== null && of !== key;
  return { ...answer, isOld, askAgain };
}
