/**
 * Reads the sums of a transaction's calls. The page's second thread computes the sums, so that up to a million events
 * never leave that thread.
 */
import type { ReceivedCoverage } from '../../contract/received.ts';
import type { Breakdown } from '../../model/lanes/breakdown.ts';
import type { Daemon } from '../api/daemon.ts';
import type { Failure } from '../api/failure.ts';
import type { LanesQuestion } from '../api/load_lanes.ts';
import { askThread } from '../api/second_thread.ts';
import type { CallTotals } from './sums.ts';

export interface CallsQuestion extends LanesQuestion {
  kind: 'calls';
}

export interface ReadCalls {
  sums: CallTotals[];
  /** Parts of the transaction's time; null if there are no own events. */
  breakdown: Breakdown | null;
  coverage: ReceivedCoverage | null;
  /** Whether some requests of others were not read, because reading ended at `othersMax`. */
  isOthersCut: boolean;
}

export type CallsAnswer = { kind: 'calls'; calls: ReadCalls } | { kind: 'failed'; failure: Failure };

export async function loadCalls(
  daemon: Daemon,
  question: Omit<LanesQuestion, 'headers'>,
  signal: AbortSignal,
): Promise<ReadCalls> {
  const asked = { ...question, kind: 'calls', headers: daemon.authorization() } satisfies CallsQuestion;
  let calls: ReadCalls | null = null;
  const onAnswer = (answer: CallsAnswer) => {
    if (answer.kind === 'failed') throw daemon.createFailedRequest(answer.failure);
    calls = answer.calls;
    return true;
  };
  await askThread(asked, onAnswer, signal);
  return calls!;
}
