/**
 * What the API and replay need of recorded events. Above this line nobody sees SQL; below it nobody sees an API
 * parameter. A fleet's database would be a second adaptor.
 */
import type { EventFilter } from '../../agent/recording/read/event_filter.ts';
import type { WrittenBack } from '../../agent/recording/read/transactions.ts';
import type { ApiEvent } from '../../bpf/schema/api.ts';
import type { NumberedBlock } from '../../bpf/schema/block.ts';
import type { WrittenSpan } from './writer_state.ts';

export type { EventFilter };

/** An event's place in the total order; every event is its own key. */
export type EventKey = Pick<ApiEvent, 'timestamp_ns' | 'event_id'>;

export interface ScanRequest {
  filter: EventFilter;
  order: 'asc' | 'desc';
  /** Only what follows this key in `order`. */
  after?: EventKey;
  limit?: number;
  /** Names of columns; all when left out. `eventsOf` needs all. */
  columns?: readonly string[];
}

export interface Context {
  transactionId: string | null;
  traceId: string | null;
  spanId: string | null;
}

/** What the numbers in a block stand for. */
export interface Dictionary {
  readonly recordingId: string;
  readonly node: string;
  /** Empty for 0. */
  name(id: number): string;
  /** Undefined for 0. */
  file(id: number): { path: string; kind: string } | undefined;
  context(id: number): Context;
}

/** Its dictionary comes along, because a store may have moved on to another file meanwhile. */
export interface ScannedBlock {
  block: NumberedBlock;
  dictionary: Dictionary;
  /** The next block is read already: there is nothing to wait for before it is asked for. */
  nextAtHand?: boolean;
}

/** Events that are missing, somewhere from `fromNs` to `toNs`. */
export interface NodeLoss {
  fromNs: bigint;
  toNs: bigint;
  lost: number;
  cause: string;
}

/** A time in which a node was recorded. What happened by `toNs` is committed. */
export interface NodeSpan extends WrittenSpan {
  node: string;
}

/** What is known of a node's wall clock in some time. */
export interface NodeClock {
  node: string;
  /** By how much it was set forth and back, in all. */
  steppedNs: bigint;
}

/** How far a recording goes. */
export interface Extent {
  recordingId: string;
  node: string;
  /** Numbers of its events are below. */
  end: number;
  /** The last note of a loss. */
  lossId: number;
  /** Nobody adds to it, and nobody removes from it. */
  isImport: boolean;
}

/** Events with numbers `[from, end)`, in the order in which they were recorded. */
export interface ArrivalRequest {
  recordingId: string;
  filter: EventFilter;
  from: number;
  end: number;
  limit: number;
}

export interface Arrived {
  scanned: ScannedBlock;
  /** The number to go on from; `end` when that was all. */
  next: number;
}

export interface NumberedNodeLoss extends NodeLoss {
  lossId: number;
}

export interface TransactionSummary {
  transactionId: string;
  /** Of the first context that it was seen with; of the first node that knows one. */
  traceId: string | null;
  firstTimestampNs: bigint;
  /** When the last of its own events ended; as `firstTimestampNs` when it has none. */
  lastEndNs: bigint;
  /** Null where a recording does not tell it apart: `lastEndNs` is then that of all events. */
  writtenBack: WrittenBack | null;
  eventCount: number;
  errorCount: number;
  slowestEventId: string;
  services: string[];
  nodes: string[];
}

export interface TransactionsRequest {
  filter: {
    /** One of these took part. */
    services?: readonly string[];
    nodes?: readonly string[];
    /** Half-open: [fromNs, toNs) of the first event's start. */
    fromNs?: bigint;
    toNs?: bigint;
    minDurationNs?: bigint;
    hasError?: boolean;
  };
  /** By start or by duration, the largest first. */
  sort: 'recent' | 'slowest';
  limit: number;
  /** Only what follows this one. */
  after?: TransactionKey;
}

/** A transaction's place in a list. */
export interface TransactionKey {
  /** Start or duration, whichever the list is sorted by. */
  value: bigint;
  transactionId: string;
}

export interface TransactionPage {
  transactions: TransactionSummary[];
  /** Where the next page begins; null when there is none. */
  next: TransactionKey | null;
}

export interface PinRequest {
  transactionId: string;
  /** How much of what came before the transaction's first event is kept too. */
  beforeNs: bigint;
  nowNs: bigint;
}

/** A transaction that a node's retention keeps. */
export interface Pin {
  transactionId: string;
  node: string;
  /** Start of what is kept, nanoseconds since the epoch. */
  fromNs: bigint;
  /** When it was pinned first. */
  pinnedNs: bigint;
}

export interface StoreInfo {
  /** At least one. */
  recordings: { recordingId: string; node: string }[];
}

/** A recording that is served. */
export interface RecordingState {
  recordingId: string;
  node: string;
  /** How it came to be served: it was named, an agent records into it, or it was imported. */
  source: 'named' | 'live' | 'imported';
  sizeBytes: number;
  /** Limit of its last agent, if it had one. */
  limitBytes: number | null;
  eventCount: number;
  /** Starts of the first and the last event. */
  firstTimestampNs: bigint | null;
  lastTimestampNs: bigint | null;
  /** Until when an agent is known to have recorded into it, and whether it still does; null if none ever did. */
  lastWriter: WrittenSpan | null;
  /** All that it misses; the type is null when it is not known. */
  lost: { cause: string; eventType: string | null; count: number }[];
}

/** An import that the others are served without. */
export interface UnreadableFile {
  path: string;
  code: string;
  reason: string;
}

/**
 * Methods throw an error whose `code` is one of ERRORS when a recording cannot be read: an answer without it would not
 * be whole.
 */
export interface Store {
  info(): StoreInfo;
  /** Of each file: copies of a recording are told apart. */
  recordingStates(): RecordingState[];
  /** What was found unreadable by now, and may be of these nodes, or all: `losses` has it too. */
  unreadable(nodes?: readonly string[]): UnreadableFile[];
  /** Blocks in order, read as they are asked for. Each has rows of one recording; an empty one is a pause. */
  scan(request: ScanRequest): Generator<ScannedBlock, void>;
  /** Of the recordings of these nodes, or of all. */
  extents(nodes?: readonly string[]): Extent[];
  /** Undefined when nothing there can match, or the recording is gone. */
  arrivals(request: ArrivalRequest): Arrived | undefined;
  /**
   * Of the numbers `[from, end)`, how many retention has removed, the number behind the last of them, and until which
   * start it has removed events.
   */
  removed(recordingId: string, from: number, end: number): { count: number; next: number; toNs: bigint };
  lossesAfter(recordingId: string, lossId: number): NumberedNodeLoss[];
  event(eventId: string): ApiEvent | undefined;
  transaction(transactionId: string): TransactionSummary | undefined;
  /** Yields to let others work. One list at a time: the next may begin when this has ended. */
  transactions(request: TransactionsRequest): Generator<void, TransactionPage>;
  /**
   * Keeps the transaction in every recording that retention could take it from, and gives the pins: none when only
   * imports hold it, which lose nothing. Undefined when nobody knows the transaction.
   */
  pin(request: PinRequest): Pin[] | undefined;
  /** Whether it was pinned. */
  unpin(transactionId: string): boolean;
  /** The oldest first; of one transaction or of all. */
  pins(transactionId?: string): Pin[];
  services(): string[];
  nodes(): string[];
  /** Losses of these nodes, or of all, that touch `[fromNs, toNs)`; without a bound, on that side all. */
  losses(fromNs: bigint | undefined, toNs: bigint | undefined, nodes?: readonly string[]): NodeLoss[];
  /** When these nodes, or all, were recorded; the losses within are not left out. */
  spans(nodes?: readonly string[]): NodeSpan[];
  /** Of each of these nodes, in `[fromNs, toNs)`. */
  clocks(nodes: readonly string[], fromNs: bigint, toNs: bigint): NodeClock[];
  close(): void;
}
