/**
 * Synchronous queries of the recordings on this machine. `recording_store.ts` implements them; a replay's plan uses
 * them.
 */
import type { LossParts } from '../../../agent/recording/format/losses.ts';
import type { RecordingTransaction, RecordingTransactionsRequest } from '../../../agent/recording/read/transactions.ts';
import type { PinRequest } from '../../../agent/recording/retain/pins.ts';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import type { RecordingBlock } from '../blocks/scanned_block.ts';
import type {
  ChosenFilter,
  ChosenRequest,
  EventFilter,
  NodeClock,
  NodeLoss,
  NodeSpan,
  Pin,
  RecordingState,
  ScanRequest,
  SpanOfNode,
  TransactionPage,
  TransactionReach,
  TransactionRows,
  TransactionSummary,
  UnendedEvents,
  UnreadableFile,
} from '../store.ts';
import type { Findings } from './recording_files.ts';

/** The end of a recording's events and loss records. */
export interface Extent {
  recordingId: string;
  node: string;
  /** Exclusive upper bound of the numbers of the recording's events. */
  end: number;
  /** Id of the recording's last loss record. */
  lossId: number;
  /** Whether the file is an import: nothing is added to it or removed from it. */
  isImport: boolean;
}

/** Selects events with numbers `[from, end)`, in the order in which they were recorded. */
export interface RecordingArrivalRequest {
  recordingId: string;
  filter: EventFilter;
  from: number;
  end: number;
  limit: number;
}

export interface ArrivedBlock {
  scanned: RecordingBlock;
  /** The number to continue from; equal to `end` if nothing is left. */
  next: number;
}

export interface NumberedLoss extends Omit<NodeLoss, 'node'> {
  lossId: number;
}

export interface UnorderedRequest extends Omit<ScanRequest, 'order' | 'after' | 'limit'> {
  /** Returns the current minimum duration, which rises during the scan. Shorter events may be left out. */
  risingMinNs?: () => bigint;
}

export interface Gathering<Result> {
  add(rows: TransactionRows): void;
  finish(): Result;
}

export interface GatheredResult<Result> {
  result: Result;
  reach: TransactionReach | null;
}

/** Methods that also exist in `Store` do the same, but synchronously. Only `pin` and `unpin` are asynchronous. */
export interface Recordings {
  listRecordingStates(): RecordingState[];
  listUnreadable(nodes?: readonly string[]): UnreadableFile[];
  /** Returns the faults found in files so far. */
  findings(): Findings;
  /** Adopts the faults that another thread found in the same recordings, so that answers count them as losses. */
  adopt(findings: Findings): void;
  scan(request: ScanRequest): Generator<RecordingBlock, void>;
  /** Scans the same events as `scan`, but in any order. */
  scanUnordered(request: UnorderedRequest): Generator<RecordingBlock, void>;
  /** Returns the extents of the recordings of these nodes, or of all nodes. */
  extents(nodes?: readonly string[]): Extent[];
  /**
   * Resolves the paths of a filter in steps, because this may take long the first time. Afterwards, `arrivals` is fast.
   */
  lookForFiles(filter: EventFilter): Generator<void, void>;
  /**
   * Returns events whose numbers are in the range; undefined if no event can match or the recording no longer exists.
   */
  arrivals(request: RecordingArrivalRequest): ArrivedBlock | undefined;
  /**
   * Describes the events with numbers `[from, end)` that retention has removed: their count, the number after the last
   * removed event, and the start time up to which retention has removed events.
   */
  countRemoved(recordingId: string, from: number, end: number): { count: number; next: number; toNs: bigint };
  lossesAfter(recordingId: string, lossId: number, parts: LossParts | undefined): NumberedLoss[];
  /** Returns transactions of one recording in the order of their first appearance, the newest first. */
  listNewest(recordingId: string, request: RecordingTransactionsRequest): RecordingTransaction[];
  event(eventId: string): ApiEvent | undefined;
  /** `recordingId` limits the search to one recording, as several recordings may use the same id. */
  findTransaction(transactionId: string, recordingId?: string): TransactionSummary | undefined;
  /** Lists transactions, and yields so that other work can run. Only one list may be in progress at a time. */
  listTransactions(request: ChosenRequest): Generator<void, TransactionPage>;
  /**
   * Passes all transactions that the filter selects to the `add` that `begin` returns. `add` must not keep the arrays,
   * because they are reused. If a file turns out to be unreadable, gathering starts again with another `begin`.
   */
  gatherTransactions<Result>(
    filter: ChosenFilter,
    begin: () => Gathering<Result>,
  ): Generator<void, GatheredResult<Result>>;
  /** Resolves once the pins are on disk. `recordingId` limits the pin to one recording. */
  pin(request: PinRequest, recordingId?: string): Promise<Pin[] | undefined>;
  unpin(transactionId: string): Promise<boolean>;
  /** `recordingId` limits the list to the pins of one recording. */
  listPins(transactionId?: string, recordingId?: string): Pin[];
  listServices(): string[];
  nodes(): string[];
  listLosses(
    fromNs: bigint | undefined,
    toNs: bigint | undefined,
    nodes?: readonly string[],
    parts?: LossParts,
  ): NodeLoss[];
  countEvents(spans: readonly SpanOfNode[]): (number | undefined)[];
  readUnended(nodes?: readonly string[]): UnendedEvents;
  findTransactionsById(ids: readonly string[]): Map<string, TransactionSummary>;
  listSpans(nodes?: readonly string[]): NodeSpan[];
  /** Returns the total clock steps of each of these nodes in `[fromNs, toNs)`. */
  readClocks(listNodes: readonly string[], fromNs: bigint, toNs: bigint): NodeClock[];
  close(): void;
}
