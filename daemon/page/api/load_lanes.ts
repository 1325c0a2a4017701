/** Reads the events of transactions as lanes, in the page's second thread. */
import type { Coverage } from '../../contract/received.ts';
import type { LanesOutline } from '../draw/extents.ts';
import type { Breakdown } from '../lanes/breakdown.ts';
import type { Choices } from '../lanes/choices.ts';
import type { LanesModel } from '../lanes/model.ts';
import type { Daemon } from './daemon.ts';
import type { Failure } from './failure.ts';
import { askThread } from './second_thread.ts';

export interface LanesQuestion {
  transactions: readonly string[];
  /** Number of their events. */
  eventCount: number;
  /** Start of the transactions' first event, nanoseconds since the epoch; given where only a later part is read. */
  firstNs?: bigint;
  /** Name of the transactions for the sentence, safe to read. */
  name: string;
  /**
   * Paths of the transactions' events, of the requests that their tasks queued, and of all requests to the devices of
   * their nodes in their time.
   */
  ownPath: string;
  queuedPaths: readonly string[];
  othersPath: string;
  /** Number of requests of others after which reading ends. */
  othersMax: number;
  /** Nanoseconds that are added to the times of a node. */
  clockOffsetsNs: ReadonlyMap<string, bigint>;
  headers: Record<string, string>;
}

export interface ReadLanes {
  model: LanesModel;
  outline: LanesOutline;
  choices: Choices;
  /** Null while only the first events are read, and without own events. */
  breakdown: Breakdown | null;
  /** Sentence that says what the picture shows. */
  sentence: string;
  /** Coverage of the transactions' own events; null while they are read. */
  coverage: Coverage | null;
  /**
   * Whether requests of others were left unread, because more were under way than are read; null until they are read.
   */
  isOthersCut: boolean | null;
}

export type LanesAnswer =
  | { kind: 'lanes'; lanes: ReadLanes }
  /** The lanes of the last answer stay, because the requests of others add no event. */
  | { kind: 'others'; isOthersCut: boolean }
  | { kind: 'failed'; failure: Failure };

/**
 * Calls `taken` with the first events of a long answer, then with all events of the transactions, at last also with the
 * requests of others, and resolves. The signal ends the thread.
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
