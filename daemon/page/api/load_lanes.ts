/** Reads the events of transactions as lanes, in the page's second thread. */
import type { ReceivedCoverage } from '../../contract/received.ts';
import type { Burst } from '../../model/explanation/bursts.ts';
import type { Breakdown } from '../../model/lanes/breakdown.ts';
import type { LanesModel } from '../../model/lanes/model.ts';
import type { LanesOutline } from '../draw/extents.ts';
import type { Choices } from '../lanes/choices.ts';
import type { Daemon } from './daemon.ts';
import type { Failure } from './failure.ts';
import { askThread } from './second_thread.ts';

export interface LanesQuestion {
  transactions: readonly string[];
  /** Number of events of all the transactions. */
  eventCount: number;
  /** Start of the transactions' first event, in nanoseconds since the epoch; given if only a later part is read. */
  firstNs?: bigint;
  /** Name of the transactions in the sentence, formatted for display. */
  name: string;
  /**
   * `ownPath` asks for the transactions' own events, and `queuedPaths` for the block requests that their tasks queued.
   * `othersPath` asks for all requests to devices of the transactions' nodes during the same time.
   */
  ownPath: string;
  queuedPaths: readonly string[];
  othersPath: string;
  /** Number of requests from `othersPath` after which reading ends. */
  othersMax: number;
  /** Clock correction of each node, in nanoseconds, which is added to the times of the node's events. */
  clockOffsetsNs: ReadonlyMap<string, bigint>;
  headers: Record<string, string>;
}

export interface ReadLanes {
  model: LanesModel;
  outline: LanesOutline;
  choices: Choices;
  /** Breakdown of the transactions' time; null while only the first events are read, and if there are no own events. */
  breakdown: Breakdown | null;
  /** Sentence that says what the picture shows. */
  sentence: string;
  /** Bursts of own events; empty while only the first events are read. */
  bursts: Burst[];
  /** Coverage of the transactions' own events; null while they are read. */
  coverage: ReceivedCoverage | null;
  /**
   * Whether requests from `othersPath` were left unread because reading ended at `othersMax`; null until these requests
   * have been read.
   */
  isOthersCut: boolean | null;
}

export type LanesAnswer =
  | { kind: 'lanes'; lanes: ReadLanes }
  /** The lanes of the previous answer stay, because the requests from `othersPath` add no event. */
  | { kind: 'others'; isOthersCut: boolean }
  | { kind: 'failed'; failure: Failure };

/**
 * Calls `taken` several times: with the first events of a long answer, then with all events of the transactions, and
 * finally also with the requests from `othersPath`. Resolves after the last call. The signal ends the thread.
 */
export function loadLanes(
  daemon: Daemon,
  question: Omit<LanesQuestion, 'headers'>,
  taken: (lanes: ReadLanes) => void,
  signal: AbortSignal,
): Promise<void> {
  const asked = { ...question, headers: daemon.authorization() } satisfies LanesQuestion;
  let last: ReadLanes;
  const onAnswer = (answer: LanesAnswer) => {
    if (answer.kind === 'failed') throw daemon.createFailedRequest(answer.failure);
    last = answer.kind === 'others' ? { ...last, isOthersCut: answer.isOthersCut } : answer.lanes;
    taken(last);
    return last.isOthersCut !== null;
  };
  return askThread(asked, onAnswer, signal);
}
