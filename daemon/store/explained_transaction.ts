/**
 * Explains where the time of one transaction went. Reads the transaction's events, the requests that its tasks queued,
 * and other requests on the same devices.
 */
import type { EventFilter } from '../../agent/recording/read/event_filter.ts';
import { createColumnsBuilder } from '../model/columns/builder.ts';
import { type EventColumns, getEventId, listDevices } from '../model/columns/event_columns.ts';
import { mergeColumns } from '../model/columns/merge.ts';
import { type Explanation, explain } from '../model/explanation/explain.ts';
import { createLanes } from '../model/lanes/model.ts';
import { createLineWriter } from './blocks/column_lines.ts';
import { createRowCutter, type ScannedBlock } from './blocks/scanned_block.ts';

export interface ExplainRequest {
  transactionId: string;
  nodes: readonly string[];
  /** Range `[fromNs, toNs)` of the start of the explained events; all events if omitted. */
  fromNs?: bigint;
  toNs?: bigint;
  /** Maximum number of events of the transaction. A transaction with more events is not explained. */
  eventsMax: number;
  /** Maximum number of other requests that are read. */
  othersMax: number;
}

export interface ExplainedTransaction {
  /** Time, in nanoseconds since the epoch, to which the explanation's offsets are relative. */
  baseNs: bigint;
  /** The explanation; null if the transaction has no own event in the range. */
  explanation: Explanation | null;
  /** Id of the explanation's longest call; null without calls. */
  longestEventId: string | null;
  /** Whether some of the other requests were not read, because there were more than `othersMax`. */
  isOthersCut: boolean;
}

/**
 * Length of the time before the explained period in which other requests are read, too. A request that began even
 * earlier has nearly always ended before the period.
 */
const BEFORE_NS = 1_000_000_000n;

/** Collects events as columns, up to a maximum number. */
export interface ColumnsCollector {
  /** Adds events up to the maximum; returns false if there were more events. */
  add(scanned: ScannedBlock): boolean;
  finish(): EventColumns;
}

export function createColumnsCollector(eventsMax: number): ColumnsCollector {
  const writer = createLineWriter();
  const builder = createColumnsBuilder();
  let count = 0;
  return {
    add(scanned) {
      const { block } = scanned;
      const taken = Math.min(block.rowCount, eventsMax - count);
      count += taken;
      const part = taken < block.rowCount ? { ...scanned, block: createRowCutter(block)(0, taken) } : scanned;
      for (const line of writer.add(part)) builder.add(line.toString());
      return taken === block.rowCount;
    },
    finish() {
      const rest = writer.take();
      if (rest.length > 0) builder.add(rest.toString());
      return builder.finish();
    },
  };
}

/**
 * Returns two filters: for the transaction's events, and for the requests that its tasks queued, which may carry the
 * data of other transactions.
 */
function buildOwnFilters({ transactionId, fromNs, toNs }: ExplainRequest): EventFilter[] {
  const range = { ...(fromNs !== undefined && { fromNs }), ...(toNs !== undefined && { toNs }) };
  return [
    { ...range, transactionId },
    { ...range, queuers: [transactionId] },
  ];
}

/**
 * Returns the filter for the other requests that an explanation counts: requests on the transaction's devices during
 * the explained calls. If there are no calls, or the explanation is about requests outside of calls, the whole
 * explained period counts. Returns null if no device is known.
 */
function buildOthersFilter(
  own: EventColumns,
  { explanation, baseNs }: ExplainedTransaction,
  { nodes }: ExplainRequest,
): EventFilter | null {
  const devices = listDevices(own);
  if (devices.length === 0 || !explanation) return null;
  const { fromNs, toNs } =
    explanation.most === 'outside'
      ? explanation.breakdown.span
      : (explanation.calls?.span ?? explanation.breakdown.span);
  const firstNs = baseNs + BigInt(fromNs) - BEFORE_NS;
  const range = { fromNs: firstNs < 0n ? 0n : firstNs, toNs: baseNs + BigInt(toNs) };
  return { eventTypes: ['block_io'], devices, nodes, ...range };
}

/** Explains columns in two steps, because each step takes long for many events. */
function* explainColumns(
  columns: EventColumns,
  transactionId: string,
  isOthersCut: boolean,
): Generator<void, ExplainedTransaction> {
  const model = createLanes(columns, { transactions: new Set([transactionId]) });
  yield;
  const explanation = explain(model);
  yield;
  const longestEventId = explanation?.calls ? getEventId(columns, explanation.calls.longest.row) : null;
  return { baseNs: model.baseNs, explanation, longestEventId, isOthersCut };
}

/** Reads the events of a filter, in order of time, up to `eventsMax`. */
type ReadColumns = (
  filter: EventFilter,
  eventsMax: number,
) => AsyncGenerator<void, { columns: EventColumns; isWhole: boolean }>;

/** Explains one transaction; returns undefined if it has too many events. */
export async function* explainTransaction(
  read: ReadColumns,
  request: ExplainRequest,
): AsyncGenerator<void, ExplainedTransaction | undefined> {
  const { transactionId, eventsMax, othersMax } = request;
  let own: EventColumns | undefined;
  for (const filter of buildOwnFilters(request)) {
    const { columns, isWhole } = yield* read(filter, eventsMax);
    if (!isWhole) return undefined;
    own = own ? mergeColumns(own, columns) : columns;
  }
  const explained = yield* explainColumns(own!, transactionId, false);
  const filter = buildOthersFilter(own!, explained, request);
  if (!filter) return explained;
  const { columns: others, isWhole } = yield* read(filter, othersMax);
  const merged = mergeColumns(own!, others);
  yield;
  return merged === own && isWhole ? explained : yield* explainColumns(merged, transactionId, !isWhole);
}
