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
  /** The first event of the transactions, nanoseconds since the epoch, where only a later part is read. */
  firstNs?: bigint;
  /** What the sentence is of, safe to read. */
  name: string;
  /**
   * Paths of the transactions' events, of the requests that their tasks queued, and of the requests to the devices of
   * its nodes in its time.
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
  /** Null for a part of the events, and without own ones. */
  breakdown: Breakdown | null;
  /** What the picture shows, in a sentence. */
  sentence: string;
  /** Coverage of the transaction's own events; null while they are read, and if that was cut. */
  coverage: Coverage | null;
  /** Whether more requests of others were under way than were read; null until they were. */
  isOthersCut: boolean | null;
}

export type LanesAnswer =
  | { kind: 'lanes'; lanes: ReadLanes }
  /** The lanes of the last answer have every request of others. */
  | { kind: 'others'; isOthersCut: boolean }
  | { kind: 'failed'; failure: Failure };

/**
 * Calls `taken` with the first events of a long answer, with all events of the transaction, and with those beside the
 * requests of others, when it resolves. The signal ends the thread.
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
