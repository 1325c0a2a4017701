/**
 * The interface through which the API reads recorded events. Code above it does not see SQL; code below it does not
 * see API parameters. Answers come later, because a store may be another machine's database; the recordings of this
 * machine (`embedded/`) are one store. Replay plans read those directly, in a thread of their own.
 */
import type { EventFilter, EventValues } from '../../agent/recording/read/event_filter.ts';
import type { WrittenBack } from '../../agent/recording/read/transactions.ts';
import type { UnendedEvent as RecordedUnended } from '../../agent/recording/read/unended.ts';
import type { ApiEvent } from '../../bpf/schema/api.ts';
import type { Box } from '../sums/box.ts';
import type { Comparison } from '../sums/differences/comparison.ts';
import type { Heatmap, HeatmapColumns } from '../sums/heatmap.ts';
import type { SlowestPage } from '../sums/slowest.ts';
import type { StatsTable } from '../sums/stats.ts';
import type { EventKey, ScannedBlock } from './blocks/scanned_block.ts';
import type { FleetHealth } from './fleet_state.ts';
import type { EventHeatmapRequest, SlowestRequest, StatsRequest } from './passes.ts';
import type { WrittenSpan } from './written_span.ts';

export type { EventFilter };

export interface ScanRequest {
  filter: EventFilter;
  order: 'asc' | 'desc';
  /** Limits the scan to events that follow this key in `order`. */
  after?: EventKey;
  limit?: number;
  /** Names of columns; all if omitted. `readBlockEvents` needs all. */
  columns?: readonly string[];
  /** Whether a block may take the memory of the one before it: its consumer is done with that one. */
  reusesMemory?: boolean;
}

/** Missing events, somewhere between `fromNs` and `toNs`. */
export interface NodeLoss {
  fromNs: bigint;
  toNs: bigint;
  lost: number;
  cause: string;
  /** Service of all the missing events; undefined if they may be of any service. */
  service?: string | undefined;
  /** Null for a file whose node is unknown. */
  node: string | null;
}

/** An event without its end. */
export interface UnendedEvent extends RecordedUnended {
  node: string;
  /** Last time at which the event is known to have been in progress. */
  untilNs: bigint;
}

/** Calls and requests that have begun and not ended. */
export interface UnendedEvents {
  /** Calls and requests in progress. */
  events: UnendedEvent[];
  /**
   * Calls and requests that were in progress when an agent ended. `listLosses` also has each, as a loss at its start.
   */
  lost: UnendedEvent[];
  unlisted: UnlistedOfNode[];
}

/**
 * Calls and requests that are only counted: they are of any kind and began between `sinceNs` and `untilNs`. `labelled`
 * of them may have a label.
 */
export interface UnlistedOfNode {
  node: string;
  count: number;
  labelled: number;
  sinceNs: bigint;
  untilNs: bigint;
  /** Whether they were in progress when an agent ended. */
  isLost: boolean;
}

/** A span of time in which a node was recorded. Everything that ended by `toNs` is committed. */
export interface NodeSpan extends WrittenSpan {
  node: string;
  /** Set for a node of a fleet: when it was last heard of, and whether it counts as gone. */
  heardOf?: { atNs: bigint; isGone: boolean };
}

/** The steps of a node's wall clock within a window. */
export interface NodeClock {
  node: string;
  /** Total amount by which the clock was set forward and back. */
  steppedNs: bigint;
}

export interface TransactionSummary {
  transactionId: string;
  /** Trace id of the first context with which it was seen, on the first node that has one. */
  traceId: string | null;
  /** Start of the first of its own events, or of its first event if it has no own ones. */
  firstTimestampNs: bigint;
  /** End of the last of its own events; equal to `firstTimestampNs` if it has no own ones. */
  lastEndNs: bigint;
  writtenBack: WrittenBack;
  eventCount: number;
  errorCount: number;
  slowestEventId: string;
  services: string[];
  nodes: string[];
}

/**
 * Selects transactions that have a value of each list and no excluded one. Services and nodes are those that took part;
 * other values are those of own events, and the devices of requests for which a sync of the transaction waited.
 */
export interface TransactionFilter extends EventValues {
  excluded?: EventValues;
  /** Half-open range [fromNs, toNs) of the first event's start. */
  fromNs?: bigint;
  toNs?: bigint;
  /** Inclusive bounds of the duration. */
  minDurationNs?: bigint;
  maxDurationNs?: bigint;
  hasError?: boolean;
}

export interface TransactionsRequest {
  filter: TransactionFilter;
  /** Order by start or by duration, descending. */
  sort: 'recent' | 'slowest';
  limit: number;
  /** Limits the list to transactions that follow this one. */
  after?: TransactionKey;
}

/** A filter whose conditions on events have been evaluated: `hashes` holds the transactions that meet them. */
export interface ChosenFilter extends TransactionFilter {
  hashes?: ReadonlySet<number>;
}

export interface ChosenRequest extends TransactionsRequest {
  filter: ChosenFilter;
}

/** A transaction's place in a list. */
export interface TransactionKey {
  /** Start or duration, depending on the sort order. */
  value: bigint;
  transactionId: string;
}

/** Where and when transactions took place, as far as their callers waited for them. */
export interface TransactionReach {
  /** Earliest start, and exclusive end of the time in which events of the transactions can have begun. */
  fromNs: bigint;
  toNs: bigint;
  /** The nodes that took part. */
  nodes: string[];
}

export interface TransactionPage {
  transactions: TransactionSummary[];
  /** The reach of all transactions of the list; null if it is empty. */
  reach: TransactionReach | null;
  /** Key to pass as `after` for the next page; null on the last page. */
  next: TransactionKey | null;
}

/** Transactions as columns, of which the first `length` values count. */
export interface TransactionRows {
  length: number;
  /** Hashes of their ids, which are the same in every recording. */
  hashes: Float64Array;
  startsNs: BigUint64Array;
  durationsNs: BigUint64Array;
  /** 1 if an event failed. */
  failed: Uint8Array;
}

export type HeatmapRequest =
  | {
      of: 'transactions';
      filter: TransactionFilter;
      /** Gets the reach of the selected transactions if the filter has no `fromNs`, else null. */
      computeColumns: (reach: TransactionReach | null) => HeatmapColumns;
    }
  | ({ of: 'events' } & EventHeatmapRequest);

export interface FoundHeatmap {
  map: Heatmap;
  columns: HeatmapColumns;
  /** The reach of the counted transactions; null without any. */
  reach: TransactionReach | null;
}

export interface FoundComparison {
  comparison: Comparison;
  /** The reach of the compared transactions; null without any. */
  reach: TransactionReach | null;
}

/** Compares the transactions or events in the box with the others that the filter selects. */
export type ComparisonRequest = {
  box: Box;
  /** There is no answer if more events than this would have to be read. */
  eventsMax: number;
} & ({ of: 'transactions'; filter: TransactionFilter } | { of: 'events'; filter: EventFilter });

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
   * The time until which an agent is known to have recorded into the recording, and whether it still does; null if none
   * ever did.
   */
  lastWriter: WrittenSpan | null;
  /** All its losses; the type is null if it is unknown. */
  lost: { cause: string; eventType: string | null; count: number }[];
}

/** An import that cannot be read; the other recordings are served without it. */
export interface UnreadableFile {
  path: string;
  /** Null if it is not known. */
  node: string | null;
  code: string;
  reason: string;
}

/** Progress of a live tail, opaque outside the store. It never changes: each answer has a new one. */
export interface FollowPosition {
  /** Text that a client sends to continue from here, with any daemon that serves the same recordings. */
  readonly id: string;
  /**
   * Two positions have the same continuation with a filter if their `sharedAs` is equal, or, without one, their `id`.
   */
  readonly sharedAs?: string;
}

export interface FollowRequest {
  /** Contains no times. */
  filter: EventFilter;
  position: FollowPosition;
  /** Events that began later than this are held back, for others that began earlier. */
  horizonNs: bigint;
  /** All recorded events began before this. */
  nowNs: bigint;
}

/** An event or a loss that follows a position; `id` is the id of the position after it. */
export type Followed =
  /** `isLate`: the event was recorded after events that follow it in the total order had been returned. */
  { kind: 'event'; id: string; json: string; isLate: boolean } | { kind: 'lost'; id: string; loss: NodeLoss };

export interface FollowedBatch {
  followed: Followed[];
  /** The position after the batch. */
  position: FollowPosition;
  /** Whether nothing more is due. */
  complete: boolean;
}

/**
 * Methods reject with an error whose `code` is one of ERRORS if a recording cannot be read: an answer without that
 * recording would be incomplete. Async generators yield so that other work can run in between.
 */
export interface Store {
  /** Health of the fleet, if the store serves one; the methods about files then return nothing. */
  readonly fleet?: FleetHealth;
  /** Returns the state of each file: copies of a recording are listed separately. */
  listRecordingStates(): Promise<RecordingState[]>;
  /**
   * Lists imports found unreadable so far that may be of these nodes, or of any node; `listLosses` includes them too.
   */
  listUnreadable(nodes?: readonly string[]): Promise<UnreadableFile[]>;
  /** Yields blocks in order, read on demand; an empty one is a pause. */
  scan(request: ScanRequest): AsyncGenerator<ScannedBlock, void>;
  /**
   * Yields the events of a long scan as JSON, one per line; an empty piece is a pause. A piece may reuse the memory of
   * the piece before the previous one.
   */
  scanJson(request: Omit<ScanRequest, 'columns' | 'reusesMemory'>): AsyncGenerator<Uint8Array, void>;
  /** Rejects with a Problem if there are more than STATS_ROWS_MAX buckets and groups. */
  computeStats(request: StatsRequest): AsyncGenerator<void, StatsTable>;
  /** The events that took longest; an event that is recorded meanwhile may be missing. */
  findSlowest(request: SlowestRequest): AsyncGenerator<void, SlowestPage>;
  /**
   * Counts transactions or events by start and duration. The filter need not repeat the time of the columns. Rejects
   * with a Problem if a filter of transactions needs too many events.
   */
  computeHeatmap(request: HeatmapRequest): AsyncGenerator<void, FoundHeatmap>;
  /** Returns undefined if there are too many events. */
  compare(request: ComparisonRequest): AsyncGenerator<void, FoundComparison | undefined>;
  /** Position of a tail that starts with events recorded from now on, or with those that began at `sinceNs` or later. */
  startFollowing(filter: EventFilter, horizonNs: bigint, sinceNs: bigint | undefined): Promise<FollowPosition>;
  /** Returns the position with this id, or undefined if it is not the id of one. */
  parseFollowPosition(id: string): FollowPosition | undefined;
  /** Resolves to undefined if `signal` aborts. */
  follow(request: FollowRequest, signal: AbortSignal): Promise<FollowedBatch | undefined>;
  findEvent(eventId: string): Promise<ApiEvent | undefined>;
  findTransaction(transactionId: string): Promise<TransactionSummary | undefined>;
  /** Returns summaries by id. A transaction has none if it is unknown, or only in an unreadable file. */
  findTransactionsById(ids: readonly string[]): Promise<Map<string, TransactionSummary>>;
  /** Rejects with a Problem if the filter needs too many events. */
  listTransactions(request: TransactionsRequest): AsyncGenerator<void, TransactionPage>;
  /**
   * Pins the transaction in every recording that retention could remove it from, and returns the pins. Imports lose
   * nothing, so there are no pins if only imports contain it. Resolves to undefined for an unknown transaction.
   */
  pin(request: PinRequest): Promise<Pin[] | undefined>;
  /** Resolves to whether the transaction was pinned. */
  unpin(transactionId: string): Promise<boolean>;
  /** Pins of one transaction or of all, oldest first. */
  listPins(transactionId?: string): Promise<Pin[]>;
  listServices(): Promise<string[]>;
  listNodes(): Promise<string[]>;
  /** Losses of these nodes, or of all, that touch `[fromNs, toNs)`; a missing bound leaves that side open. */
  listLosses(fromNs: bigint | undefined, toNs: bigint | undefined, nodes?: readonly string[]): Promise<NodeLoss[]>;
  /** Lists calls and requests on these nodes, or on all, that are in progress or were when an agent ended. */
  readUnended(nodes?: readonly string[]): Promise<UnendedEvents>;
  /** Spans in which these nodes, or all, were recorded, including the time of any losses within. */
  listSpans(nodes?: readonly string[]): Promise<NodeSpan[]>;
  close(): Promise<void>;
  /**
   * Returns a store for one answer, whose questions share the rows that they have read; absent in stores without such a
   * cache.
   */
  createAnswerStore?(): Store;
}
