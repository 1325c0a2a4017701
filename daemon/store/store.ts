/**
 * The interface through which the API and replay read recorded events. Code above it does not see SQL; code below it
 * does not see API parameters. A fleet's database would be a second adaptor.
 */
import type { EventFilter } from '../../agent/recording/read/event_filter.ts';
import type { WrittenBack } from '../../agent/recording/read/transactions.ts';
import type { ApiEvent } from '../../bpf/schema/api.ts';
import type { NumberedBlock } from '../../bpf/schema/block.ts';
import type { WrittenSpan } from './writer_state.ts';

export type { EventFilter };

/** An event's place in the total order; every event can serve as its own key. */
export type EventKey = Pick<ApiEvent, 'timestamp_ns' | 'event_id'>;

export interface ScanRequest {
  filter: EventFilter;
  order: 'asc' | 'desc';
  /** Limits the scan to events that follow this key in `order`. */
  after?: EventKey;
  limit?: number;
  /** Names of columns; all if omitted. `eventsOf` needs all. */
  columns?: readonly string[];
}

export interface Context {
  transactionId: string | null;
  traceId: string | null;
  spanId: string | null;
}

/** Resolves the ids in a block. */
export interface Dictionary {
  readonly recordingId: string;
  readonly node: string;
  /** Returns an empty name for 0. */
  name(id: number): string;
  /** Returns undefined for 0. */
  file(id: number): { path: string; kind: string } | undefined;
  context(id: number): Context;
}

/** A block with its dictionary, because the store may have moved on to another file in the meantime. */
export interface ScannedBlock {
  block: NumberedBlock;
  dictionary: Dictionary;
  /** Whether the next block is in memory already, so that reading it does not block. */
  nextAtHand?: boolean;
}

/** Missing events, somewhere between `fromNs` and `toNs`. */
export interface NodeLoss {
  fromNs: bigint;
  toNs: bigint;
  lost: number;
  cause: string;
}

/** A span of time in which a node was recorded. Everything that happened by `toNs` is committed. */
export interface NodeSpan extends WrittenSpan {
  node: string;
}

/** The steps of a node's wall clock within a window. */
export interface NodeClock {
  node: string;
  /** Total amount by which the clock was set forward and back. */
  steppedNs: bigint;
}

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

export interface Arrived {
  scanned: ScannedBlock;
  /** The number to continue from; `end` if nothing is left. */
  next: number;
}

export interface NumberedNodeLoss extends NodeLoss {
  lossId: number;
}

export interface TransactionSummary {
  transactionId: string;
  /** Trace id of the first context with which it was seen, on the first node that has one. */
  traceId: string | null;
  firstTimestampNs: bigint;
  /** When the last of its own events ended; equal to `firstTimestampNs` if it has none. */
  lastEndNs: bigint;
  /** Null if a recording does not distinguish write-back: `lastEndNs` then covers all events. */
  writtenBack: WrittenBack | null;
  eventCount: number;
  errorCount: number;
  slowestEventId: string;
  services: string[];
  nodes: string[];
}

export interface TransactionsRequest {
  filter: {
    /** At least one of these services took part. */
    services?: readonly string[];
    nodes?: readonly string[];
    /** Half-open range [fromNs, toNs) of the first event's start. */
    fromNs?: bigint;
    toNs?: bigint;
    minDurationNs?: bigint;
    hasError?: boolean;
  };
  /** Order by start or by duration, descending. */
  sort: 'recent' | 'slowest';
  limit: number;
  /** Limits the list to transactions that follow this one. */
  after?: TransactionKey;
}

/** A transaction's place in a list. */
export interface TransactionKey {
  /** Start or duration, depending on the sort order. */
  value: bigint;
  transactionId: string;
}

export interface TransactionPage {
  transactions: TransactionSummary[];
  /** Key to pass as `after` for the next page; null on the last page. */
  next: TransactionKey | null;
}

export interface PinRequest {
  transactionId: string;
  /** How much of the time before the transaction's first event is kept too. */
  beforeNs: bigint;
  nowNs: bigint;
}

/** A transaction that a node's retention keeps. */
export interface Pin {
  transactionId: string;
  node: string;
  /** Start of the kept time, nanoseconds since the epoch. */
  fromNs: bigint;
  /** When the transaction was first pinned. */
  pinnedNs: bigint;
}

export interface StoreInfo {
  /** Contains at least one recording. */
  recordings: { recordingId: string; node: string }[];
}

/** A recording that is served. */
export interface RecordingState {
  recordingId: string;
  node: string;
  /** Reason for serving it: it was named, an agent records into it, or it was imported. */
  source: 'named' | 'live' | 'imported';
  sizeBytes: number;
  /** Retention limit of its last agent, if that agent had one. */
  limitBytes: number | null;
  eventCount: number;
  /** Start times of the first and the last event. */
  firstTimestampNs: bigint | null;
  lastTimestampNs: bigint | null;
  /**
   * The time until which an agent is known to have recorded into it, and whether it still does; null if none ever did.
   */
  lastWriter: WrittenSpan | null;
  /** All its losses; the type is null if it is unknown. */
  lost: { cause: string; eventType: string | null; count: number }[];
}

/** An import that cannot be read; the other recordings are served without it. */
export interface UnreadableFile {
  path: string;
  code: string;
  reason: string;
}

/**
 * Methods throw an error whose `code` is one of ERRORS if a recording cannot be read: an answer without that recording
 * would be incomplete.
 */
export interface Store {
  info(): StoreInfo;
  /** Returns the state of each file: copies of a recording are listed separately. */
  recordingStates(): RecordingState[];
  /** Imports found unreadable so far that may be of these nodes, or of all nodes; `losses` includes them too. */
  unreadable(nodes?: readonly string[]): UnreadableFile[];
  /** Yields blocks in order, read on demand. Each has rows of one recording; an empty one is a pause. */
  scan(request: ScanRequest): Generator<ScannedBlock, void>;
  /** Returns the extents of recordings of these nodes, or of all. */
  extents(nodes?: readonly string[]): Extent[];
  /** Returns undefined if nothing in the range can match, or the recording is gone. */
  arrivals(request: ArrivalRequest): Arrived | undefined;
  /**
   * Returns how many of the numbers `[from, end)` retention has removed, the number after the last removed one, and the
   * start time up to which it has removed events.
   */
  removed(recordingId: string, from: number, end: number): { count: number; next: number; toNs: bigint };
  lossesAfter(recordingId: string, lossId: number): NumberedNodeLoss[];
  event(eventId: string): ApiEvent | undefined;
  transaction(transactionId: string): TransactionSummary | undefined;
  /** Yields to let other work run. Only one list is made at a time: the next may begin when this one has ended. */
  transactions(request: TransactionsRequest): Generator<void, TransactionPage>;
  /**
   * Pins the transaction in every recording that retention could remove it from, and returns the pins. Imports lose
   * nothing, so there are no pins if only imports contain it. Returns undefined for an unknown transaction.
   */
  pin(request: PinRequest): Pin[] | undefined;
  /** Returns whether the transaction was pinned. */
  unpin(transactionId: string): boolean;
  /** Pins of one transaction or of all, oldest first. */
  pins(transactionId?: string): Pin[];
  services(): string[];
  nodes(): string[];
  /** Losses of these nodes, or of all, that touch `[fromNs, toNs)`; a missing bound leaves that side open. */
  losses(fromNs: bigint | undefined, toNs: bigint | undefined, nodes?: readonly string[]): NodeLoss[];
  /** Spans in which these nodes, or all, were recorded, including the time of any losses within. */
  spans(nodes?: readonly string[]): NodeSpan[];
  /** Clock steps of each of these nodes in `[fromNs, toNs)`. */
  clocks(nodes: readonly string[], fromNs: bigint, toNs: bigint): NodeClock[];
  close(): void;
}
