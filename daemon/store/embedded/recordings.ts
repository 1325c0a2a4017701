/**
 * Synchronous questions to the recordings on this machine. `recording_store.ts` implements them; a replay's plan uses
 * them.
 */
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
  PinRequest,
  RecordingState,
  ScanRequest,
  TransactionPage,
  TransactionReach,
  TransactionRows,
  TransactionSummary,
  UnendedEvents,
  UnreadableFile,
} from '../store.ts';
import type { Findings } from './recording_files.ts';

/** How far a recording extends. */
export interface Extent {
  recordingId: string;
  node: string;
  /** All numbers of its events are below this. */
  end: number;
  /** Id of its last loss record. */
  lossId: number;
  /** Whether the file is an import: nothing is added to it or removed from it. */
  isImport: boolean;
}

/** Selects events with numbers `[from, end)`, in the order in which they were recorded. */
export interface ArrivalRequest {
  recordingId: string;
  filter: EventFilter;
  from: number;
  end: number;
  limit: number;
}

export interface ArrivedBlock {
  scanned: RecordingBlock;
  /** The number to continue from; `end` if nothing is left. */
  next: number;
}

export interface NumberedLoss extends Omit<NodeLoss, 'node'> {
  lossId: number;
}

export interface UnorderedRequest extends Omit<ScanRequest, 'order' | 'after' | 'limit'> {
  /** Returns a minimum duration that rises during the scan: shorter events may be left out. */
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

/** Methods that `Store` has too mean the same as there, but return at once. */
export interface Recordings {
  listRecordingStates(): RecordingState[];
  listUnreadable(nodes?: readonly string[]): UnreadableFile[];
  /** Returns the faults found in files so far. */
  findings(): Findings;
  /** Adopts the faults that another thread found in the same recordings, so that answers count them as losses. */
  adopt(findings: Findings): void;
  scan(request: ScanRequest): Generator<RecordingBlock, void>;
  /** Scans the same events in no order; `limit` and `after` must be absent. */
  scanUnordered(request: UnorderedRequest): Generator<RecordingBlock, void>;
  /** Returns the extents of recordings of these nodes, or of all. */
  extents(nodes?: readonly string[]): Extent[];
  /** Resolves the paths of a filter before `arrivals` needs them, in steps: the first time may take long. */
  lookForFiles(filter: EventFilter): Generator<void, void>;
  /** Returns undefined if nothing in the range can match, or the recording is gone. */
  arrivals(request: ArrivalRequest): ArrivedBlock | undefined;
  /**
   * Returns how many of the numbers `[from, end)` retention has removed, the number after the last removed one, and the
   * start time up to which it has removed events.
   */
  countRemoved(recordingId: string, from: number, end: number): { count: number; next: number; toNs: bigint };
  lossesAfter(recordingId: string, lossId: number): NumberedLoss[];
  event(eventId: string): ApiEvent | undefined;
  findTransaction(transactionId: string): TransactionSummary | undefined;
  /** Yields to let other work run. Only one list is made at a time: the next may begin when this one has ended. */
  listTransactions(request: ChosenRequest): Generator<void, TransactionPage>;
  /**
   * Passes all transactions that the filter selects to the result of `begin`, from memory; the arrays that `add` gets
   * are reused. `begin` is called again if a file turns out to be unreadable.
   */
  gatherTransactions<Result>(
    filter: ChosenFilter,
    begin: () => Gathering<Result>,
  ): Generator<void, GatheredResult<Result>>;
  pin(request: PinRequest): Pin[] | undefined;
  unpin(transactionId: string): boolean;
  /** Resolves once all pins are on the disk. */
  syncPins(): Promise<void>;
  listPins(transactionId?: string): Pin[];
  listServices(): string[];
  nodes(): string[];
  listLosses(fromNs: bigint | undefined, toNs: bigint | undefined, nodes?: readonly string[]): NodeLoss[];
  readUnended(nodes?: readonly string[]): UnendedEvents;
  findTransactionsById(ids: readonly string[]): Map<string, TransactionSummary>;
  listSpans(nodes?: readonly string[]): NodeSpan[];
  /** Clock steps of each of these nodes in `[fromNs, toNs)`. */
  readClocks(listNodes: readonly string[], fromNs: bigint, toNs: bigint): NodeClock[];
  close(): void;
}
