/**
 * The interface through which the API reads recorded events. Callers see no SQL, and stores see no API parameters. One
 * store reads the recordings of this machine (`embedded/`). Another store reads a database on other machines
 * (`fleet/`), so all answers are asynchronous. Replay plans read local recordings directly, in a separate thread.
 */
import type { Loss, LossParts, LossScope } from '../../agent/recording/format/losses.ts';
import type { EventFilter, EventValues } from '../../agent/recording/read/event_filter.ts';
import type { WrittenBack } from '../../agent/recording/read/transactions.ts';
import type { RecordedUnended } from '../../agent/recording/read/unended.ts';
import type { PinRequest } from '../../agent/recording/retain/pins.ts';
import type { ApiEvent } from '../../bpf/schema/api.ts';
import type { Box } from '../sums/box.ts';
import type { Comparison } from '../sums/differences/comparison.ts';
import type { Heatmap, HeatmapColumns } from '../sums/heatmap.ts';
import type { SlowestPage } from '../sums/slowest.ts';
import type { StatsTable } from '../sums/stats.ts';
import type { EventKey, ScannedBlock } from './blocks/scanned_block.ts';
import type { ExplainedTransaction, ExplainRequest } from './explained_transaction.ts';
import type { FleetHealth } from './fleet_state.ts';
import type { EventHeatmapRequest, SlowestRequest, StatsRequest } from './passes.ts';
import type { WrittenSpan } from './written_span.ts';

export type { EventFilter };

export interface ScanRequest {
  filter: EventFilter;
  order: 'asc' | 'desc';
  /** Limits the scan to events that come after this key in `order`. */
  after?: EventKey;
  limit?: number;
  /** Names of the columns to read; all columns if omitted. `readBlockEvents` needs all columns. */
  columns?: readonly string[];
  /** Whether a block may reuse the memory of the previous block, because the consumer no longer needs that block. */
  reusesMemory?: boolean;
}

/** Missing events, which occurred somewhere between `fromNs` and `toNs`. */
export interface NodeLoss extends LossScope, Pick<Loss, 'service' | 'sums'> {
  fromNs: bigint;
  toNs: bigint;
  lost: number;
  cause: string;
  /** Node of the missing events; null for a file whose node is unknown. */
  node: string | null;
}

/** A span of one node's time, `[fromNs, toNs)`. */
export interface SpanOfNode {
  node: string;
  fromNs: bigint;
  toNs: bigint;
}

/** An event that had not ended when it was last observed. */
export interface UnendedEvent extends RecordedUnended {
  node: string;
  /** Last time at which the event is known to have been in progress. */
  untilNs: bigint;
}

/** Calls and requests that have begun but not ended. */
export interface UnendedEvents {
  /** Calls and requests in progress. */
  events: UnendedEvent[];
  /**
   * Calls and requests that were in progress when an agent ended. `listLosses` also returns each of them, as a loss at
   * its start.
   */
  lost: UnendedEvent[];
  unlisted: UnlistedOfNode[];
}

/**
 * Calls and requests in progress that were only counted, not listed. They began between `sinceNs` and `untilNs`.
 * `labelled` is the number of these calls and requests that may belong to a transaction or a trace.
 */
export interface UnlistedOfNode {
  node: string;
  count: number;
  labelled: number;
  sinceNs: bigint;
  untilNs: bigint;
  /** Whether the calls and requests were in progress when an agent ended. */
  isLost: boolean;
}

/** A period in which a node was recorded. All events that ended by `toNs` are committed. */
export interface NodeSpan extends WrittenSpan {
  node: string;
  /** Set for a node of a fleet: the time of its last contact, and whether the node counts as gone. */
  heardOf?: { atNs: bigint; isGone: boolean };
}

/** Total size of the steps of a node's wall clock within a window. */
export interface NodeClock {
  node: string;
  /** Total amount by which the clock was set forward and back. */
  steppedNs: bigint;
}

export interface TransactionSummary {
  transactionId: string;
  /** Trace id of the transaction's first context, from the first recording that has one; null if none has. */
  traceId: string | null;
  /** Start of the transaction's first own event, or of its first event if it has no own events. */
  firstTimestampNs: bigint;
  /** End of the transaction's last own event; equal to `firstTimestampNs` if it has no own events. */
  lastEndNs: bigint;
  writtenBack: WrittenBack;
  eventCount: number;
  errorCount: number;
  /** Duration of the transaction's longest own event, or of its longest write-back if it has no own events. */
  slowestNs: bigint;
  slowestEventId: string;
  services: string[];
  nodes: string[];
}

/**
 * Selects transactions that have at least one value of each list and no excluded value. Services and nodes match if
 * they took part in the transaction. Other values match if an own event has them. A device also matches if a sync of
 * the transaction waited for a request on the device.
 */
export interface TransactionFilter extends EventValues {
  excluded?: EventValues;
  /** Half-open range `[fromNs, toNs)` of the start of the transaction's first event. */
  fromNs?: bigint;
  toNs?: bigint;
  /** Inclusive bounds of the transaction's duration. */
  minDurationNs?: bigint;
  maxDurationNs?: bigint;
  hasError?: boolean;
  /** Text that the id contains; the case of the letters a to z is ignored. */
  idPart?: string;
}

export interface TransactionsRequest {
  filter: TransactionFilter;
  /** Sort order: by start (`recent`) or by duration (`slowest`), both descending. */
  sort: 'recent' | 'slowest';
  limit: number;
  /** Limits the list to transactions that come after this key in the sort order. */
  after?: TransactionKey;
}

/**
 * A filter whose conditions on events have been evaluated. `hashes` contains the hashes of the transactions that meet
 * these conditions.
 */
export interface ChosenFilter extends TransactionFilter {
  hashes?: ReadonlySet<number>;
}

export interface ChosenRequest extends TransactionsRequest {
  filter: ChosenFilter;
}

/** A transaction's position in a list. */
export interface TransactionKey {
  /** Start or duration of the transaction, depending on the sort order. */
  value: bigint;
  transactionId: string;
}

/** The nodes and the period of a set of transactions. Only events for which the callers waited count. */
export interface TransactionReach {
  /** Earliest start of a transaction. */
  fromNs: bigint;
  /** Exclusive end of the period in which events of the transactions can have begun. */
  toNs: bigint;
  /** The nodes that took part in the transactions. */
  nodes: string[];
}

export interface TransactionPage {
  transactions: TransactionSummary[];
  /** The reach of all transactions of the list; null if the list is empty. */
  reach: TransactionReach | null;
  /** Key to pass as `after` for the next page; null on the last page. */
  next: TransactionKey | null;
}

/** Transactions as columns; only the first `length` values of each column count. */
export interface TransactionRows {
  length: number;
  /** Hashes of the transactions' ids, which are the same in every recording. */
  hashes: Float64Array;
  startsNs: BigUint64Array;
  durationsNs: BigUint64Array;
  /** Each value is 1 if an event of the transaction failed. */
  failed: Uint8Array;
}

export type HeatmapRequest =
  | {
      of: 'transactions';
      filter: TransactionFilter;
      /**
       * Computes the columns of the map. `reach` is the reach of the selected transactions if the filter has no
       * `fromNs`, and null otherwise.
       */
      computeColumns: (reach: TransactionReach | null) => HeatmapColumns;
    }
  | ({ of: 'events' } & EventHeatmapRequest);

export interface FoundHeatmap {
  map: Heatmap;
  columns: HeatmapColumns;
  /** The reach of the counted transactions; null if there are none. */
  reach: TransactionReach | null;
}

export interface FoundComparison {
  comparison: Comparison;
  /** The reach of the compared transactions; null if there are none. */
  reach: TransactionReach | null;
}

/** Compares the transactions or events in the box with all others that the filter selects. */
export type ComparisonRequest = {
  box: Box;
  /** Maximum number of events that may be read: if more events are needed, there is no answer. */
  eventsMax: number;
} & ({ of: 'transactions'; filter: TransactionFilter } | { of: 'events'; filter: EventFilter });

/** A transaction that a node's retention keeps. */
export interface Pin {
  transactionId: string;
  node: string;
  /** Start of the period that is kept, in nanoseconds since the epoch. */
  fromNs: bigint;
  /** Time at which the transaction was first pinned. */
  pinnedNs: bigint;
}

/** A recording that is served. */
export interface RecordingState {
  recordingId: string;
  node: string;
  /** Reason for serving the recording: it was named, an agent records into it, or it was imported. */
  source: 'named' | 'live' | 'imported';
  sizeBytes: number;
  /** Retention limit of the recording's last agent, if that agent had one. */
  limitBytes: number | null;
  eventCount: number;
  /** Start times of the first and the last event. */
  firstTimestampNs: bigint | null;
  lastTimestampNs: bigint | null;
  /**
   * Period in which an agent is known to have recorded into the recording, and whether an agent still records; null if
   * no agent ever recorded into it.
   */
  lastWriter: WrittenSpan | null;
  /** All losses of the recording; `eventType` is null if it is unknown. */
  lost: { cause: string; eventType: string | null; count: number }[];
}

/** An import that cannot be read; the other recordings are served without it. */
export interface UnreadableFile {
  path: string;
  /** Node of the import; null if it is not known. */
  node: string | null;
  code: string;
  reason: string;
}

/**
 * The progress of a live tail, opaque outside the store. A position never changes: each batch returns a new position.
 */
export interface FollowPosition {
  /** Text that a client sends to continue from this position, with any daemon that serves the same recordings. */
  readonly id: string;
  /**
   * If tails have the same filter and the same `sharedAs`, the next batch is the same for all of them. Positions
   * without `sharedAs` are compared by `id`.
   */
  readonly sharedAs?: string;
}

export interface FollowRequest {
  /** The filter of the tail, without times. */
  filter: EventFilter;
  position: FollowPosition;
  /** Events that began after `horizonNs` are not returned yet, so that earlier events can still arrive before them. */
  horizonNs: bigint;
  /** Time before which all recorded events began. */
  nowNs: bigint;
}

/** An event or a loss that follows a position; `id` is the id of the position after the event or loss. */
export type Followed =
  /** `isLate`: when the event was recorded, later events of the total order had already been returned. */
  { kind: 'event'; id: string; json: string; isLate: boolean } | { kind: 'lost'; id: string; loss: NodeLoss };

export interface FollowedBatch {
  followed: Followed[];
  /** The position after the batch. */
  position: FollowPosition;
  /** Whether no more events or losses are due. */
  complete: boolean;
}

/**
 * Queries of recorded events. Methods reject with an error whose `code` is one of ERRORS if a recording cannot be read,
 * because an answer without that recording would be incomplete. Async generators yield so that other work can run
 * meanwhile.
 */
export interface Store {
  /**
   * Health of the fleet; absent for recordings of this machine. With a fleet, the methods about files return empty
   * lists.
   */
  readonly fleet?: FleetHealth;
  /** Returns the state of each file; copies of a recording are listed separately. */
  listRecordingStates(): Promise<RecordingState[]>;
  /**
   * Lists the imports that turned out to be unreadable and may be of these nodes, or all such imports if `nodes` is
   * omitted. `listLosses` also includes these imports.
   */
  listUnreadable(nodes?: readonly string[]): Promise<UnreadableFile[]>;
  /** Yields blocks in order, and reads each block on demand. An empty block is a pause in which other work can run. */
  scan(request: ScanRequest): AsyncGenerator<ScannedBlock, void>;
  /**
   * Yields the events of a long scan as JSON, one per line. An empty chunk is a pause in which other work can run. A
   * chunk may reuse the memory of the chunk before the previous chunk.
   */
  scanJson(request: Omit<ScanRequest, 'columns' | 'reusesMemory'>): AsyncGenerator<Uint8Array, void>;
  /** Sums up events by time and group. Rejects with a Problem if the result has more than STATS_ROWS_MAX rows. */
  computeStats(request: StatsRequest): AsyncGenerator<void, StatsTable>;
  /** Finds the events that took longest; an event that is recorded during the search may be missing. */
  findSlowest(request: SlowestRequest): AsyncGenerator<void, SlowestPage>;
  /**
   * Explains where the time of a transaction went. Returns undefined if the transaction has too many events in the range.
   */
  explainTransaction(request: ExplainRequest): AsyncGenerator<void, ExplainedTransaction | undefined>;
  /**
   * Counts transactions or events by start and duration. The filter need not repeat the time range of the columns.
   * Rejects with a Problem if a filter of transactions needs too many events.
   */
  computeHeatmap(request: HeatmapRequest): AsyncGenerator<void, FoundHeatmap>;
  /** Compares the events or transactions in a box with the others. Returns undefined if this needs too many events. */
  compare(request: ComparisonRequest): AsyncGenerator<void, FoundComparison | undefined>;
  /**
   * Returns the position of a tail that starts with events recorded from now on, or with events that began at `sinceNs`
   * or later.
   */
  startFollowing(filter: EventFilter, horizonNs: bigint, sinceNs: bigint | undefined): Promise<FollowPosition>;
  /** Returns the position with this id, or undefined if the text is not the id of a position. */
  parseFollowPosition(id: string): FollowPosition | undefined;
  /** Resolves to the batch that follows a position; undefined if `signal` aborts. */
  follow(request: FollowRequest, signal: AbortSignal): Promise<FollowedBatch | undefined>;
  findEvent(eventId: string): Promise<ApiEvent | undefined>;
  findTransaction(transactionId: string): Promise<TransactionSummary | undefined>;
  /**
   * Returns summaries by id. There is no summary for a transaction that is unknown or exists only in an unreadable
   * file.
   */
  findTransactionsById(ids: readonly string[]): Promise<Map<string, TransactionSummary>>;
  /** Lists transactions. Rejects with a Problem if the filter needs too many events. */
  listTransactions(request: TransactionsRequest): AsyncGenerator<void, TransactionPage>;
  /**
   * Pins the transaction in every recording from which retention could remove it, and returns the pins. Nothing is
   * removed from imports, so there are no pins if only imports contain the transaction. Resolves to undefined for an
   * unknown transaction.
   */
  pin(request: PinRequest): Promise<Pin[] | undefined>;
  /** Resolves to whether the transaction was pinned. */
  unpin(transactionId: string): Promise<boolean>;
  /** Returns the pins of one transaction, or of all transactions, with the oldest pin first. */
  listPins(transactionId?: string): Promise<Pin[]>;
  listServices(): Promise<string[]>;
  listNodes(): Promise<string[]>;
  /**
   * Returns the losses of these nodes, or of all nodes, that overlap `[fromNs, toNs)` or end at `fromNs`. An undefined
   * bound sets no limit.
   */
  listLosses(
    fromNs: bigint | undefined,
    toNs: bigint | undefined,
    nodes?: readonly string[],
    parts?: LossParts,
  ): Promise<NodeLoss[]>;
  /**
   * Counts, for each span, all recorded events of the node that began in the span. The count of a span is undefined if
   * it is not known, for example because a file is damaged or contains only selected events.
   */
  countEvents(spans: readonly SpanOfNode[]): Promise<(number | undefined)[]>;
  /**
   * Lists calls and requests on these nodes, or on all nodes, that are in progress or were in progress when an agent
   * ended.
   */
  readUnended(nodes?: readonly string[]): Promise<UnendedEvents>;
  /**
   * Lists the spans in which these nodes, or all nodes, were recorded; spans include the time of losses within them.
   */
  listSpans(nodes?: readonly string[]): Promise<NodeSpan[]>;
  close(): Promise<void>;
  /**
   * Returns a store for one answer. The queries of this answer share the rows that they have read. Stores without such
   * a cache lack this method.
   */
  createAnswerStore?(): Store;
}
