/** The store of a fleet. It reads ClickHouse tables into which the nodes' senders write. */

import { sql } from '../../../agent/clickhouse/statements/sql.ts';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { parseEventId } from '../../base/event_id.ts';
import { KEPT_EVENTS_MAX } from '../../sums/differences/chosen_transactions.ts';
import { readBlockEvents } from '../blocks/event.ts';
import { encodeJsonChunks } from '../blocks/event_json.ts';
import { NODE_GONE_NS } from '../fleet_state.ts';
import type { Store } from '../store.ts';
import { createAnswerBlocks } from './answer_blocks.ts';
import { countFleetEvents } from './event_count.ts';
import { chooseTableSql, closeFleet, type Fleet, readRows, withFleetErrors, withFleetStepErrors } from './fleet.ts';
import {
  createFleetHealth,
  readFleetLosses,
  readFleetServices,
  readFleetSpans,
  readFleetUnended,
} from './fleet_info.ts';
import { PIN_LIMITS, type PinLimits, pinIn, readFleetPins, unpinIn } from './fleet_pins.ts';
import { follow, parseFollowPosition, startFollowing } from './follow.ts';
import type { NodesFile } from './known_nodes.ts';
import { listFleetTransactions } from './listed_transactions.ts';
import { buildEventSql, buildPinnedSql, scanFleet } from './scan.ts';
import { createShards } from './shards.ts';
import { computeFleetStats } from './summed_stats.ts';
import { chooseFleetFilter, compareFleet, computeFleetHeatmap, createFleetPasses } from './sums.ts';
import { findFleetTransactions } from './transactions_by_id.ts';

export interface FleetStoreOptions {
  /** Maximum number of events that a filter of transactions may need. */
  eventsMax?: number;
  pinLimits?: PinLimits;
  /**
   * A node whose last contact is longer ago than this counts as gone. Later events of the node then do not count as
   * missing from an answer, except if the query names the node.
   */
  forgetNs?: bigint;
  /** A tail delays events by this time, so that earlier events can still arrive before them. */
  tailLagNs?: bigint;
  /** File that keeps the nodes of the shards across restarts. */
  nodesFile?: NodesFile | undefined;
}

/** Default delay of a tail. Most events arrive 6 to 16 s after they began. */
export const TAIL_LAG_NS = 20_000_000_000n;

/**
 * Creates the queries that may be about one transaction. The queries of one answer share the transaction's rows that
 * they have read.
 */
function createQuestions(reading: Fleet) {
  const { slowest, explain } = createFleetPasses(reading);
  return {
    scan: (request) => withFleetStepErrors(scanFleet(reading, request)),
    scanJson: (request) => withFleetStepErrors(encodeJsonChunks(scanFleet(reading, request), '\n')),
    computeStats: (request) => withFleetStepErrors(computeFleetStats(reading, request)),
    findSlowest: (request) => withFleetStepErrors(slowest(request)),
    explainTransaction: (request) => withFleetStepErrors(explain(request)),
    findEvent: (eventId) => withFleetErrors(() => findFleetEvent(reading, eventId)),
    findTransactionsById: (ids) => withFleetErrors(() => findFleetTransactions(reading, ids)),
    findTransaction: (id) => withFleetErrors(async () => (await findFleetTransactions(reading, [id])).get(id)),
  } satisfies Partial<Store>;
}

/** Creates the store, which owns the fleet's connections and closes them. */
export function createFleetStore(
  fleet: Fleet,
  {
    eventsMax = KEPT_EVENTS_MAX,
    pinLimits = PIN_LIMITS,
    forgetNs = NODE_GONE_NS,
    tailLagNs = TAIL_LAG_NS,
    nodesFile,
  }: FleetStoreOptions = {},
): Store {
  const shards = createShards(fleet, nodesFile);
  const { reading } = shards;

  const passes = createFleetPasses(reading);

  const store: Store = {
    fleet: { ...createFleetHealth(fleet), watchShards: shards.watch },
    listRecordingStates: async () => [],
    listUnreadable: async () => [],
    ...createQuestions(reading),
    computeHeatmap: (request) => withFleetStepErrors(computeFleetHeatmap(reading, passes, request, eventsMax)),
    compare: (request) => withFleetStepErrors(compareFleet(reading, passes, request)),
    startFollowing: (filter, horizonNs, sinceNs) =>
      withFleetErrors(() => startFollowing(fleet, filter, { horizonNs, sinceNs, lagNs: tailLagNs })),
    parseFollowPosition,
    follow: (request, signal) => withFleetErrors(() => follow(fleet, request, tailLagNs, signal)),
    listTransactions: (request) =>
      withFleetStepErrors(
        (async function* () {
          const filter = yield* chooseFleetFilter(reading, passes, request.filter, eventsMax);
          return yield* listFleetTransactions(reading, { ...request, filter });
        })(),
      ),
    pin: (request) => withFleetErrors(() => pinIn(fleet, request, pinLimits)),
    unpin: (transactionId) => withFleetErrors(() => unpinIn(fleet, transactionId)),
    listPins: (transactionId) => withFleetErrors(() => readFleetPins(reading, transactionId)),
    listServices: () => withFleetErrors(() => readFleetServices(reading)),
    listNodes: () => withFleetErrors(shards.listNodes),
    listLosses: (fromNs, toNs, nodes, parts) =>
      withFleetErrors(() => readFleetLosses(reading, fromNs, toNs, nodes, parts)),
    countEvents: (spans) => withFleetErrors(() => countFleetEvents(reading, spans)),
    readUnended: (nodes) => withFleetErrors(() => readFleetUnended(reading, nodes)),
    listSpans: (nodes) =>
      withFleetErrors(() => shards.noteRecordings(nodes, () => readFleetSpans(reading, nodes, forgetNs))),
    close: async () => closeFleet(fleet),
    createAnswerStore() {
      return { ...store, ...createQuestions({ ...reading, answered: new Map() }) };
    },
  };
  return store;
}

/*
 * Finds one event by its id. The table of events is sorted by time, so the event's segment is read first to find the
 * time.
 */

async function findFleetEvent(fleet: Fleet, eventId: string): Promise<ApiEvent | undefined> {
  const id = parseEventId(eventId);
  if (!id) return undefined;
  const recording = sql`recording = ${BigInt(`0x${id.recordingId}`)}`;
  const segments = sql`SELECT t_min, t_max FROM ${chooseTableSql(fleet, 'segment')}
WHERE ${recording} AND first_number <= ${id.number} AND end_number > ${id.number} LIMIT 1`;
  const [segment] = await readRows(fleet, segments, { t_min: 'number', t_max: 'number' });
  const own = [recording, sql`number = ${id.number}`];
  const blocks = createAnswerBlocks();
  const asked = { selected: blocks.selected, conditions: own, order: 'asc', rowsMax: 1 } as const;
  const times = segment && { firstNs: segment.t_min, lastNs: segment.t_max };
  const statements = [
    ...(times ? [buildEventSql(fleet, { ...asked, times }, false)] : []),
    // Pinned events may have no segment, but there are so few that they can be searched without a time.
    ...((await fleet.oldestNs()) > (times?.firstNs ?? 0n) ? [buildPinnedSql(fleet, asked)] : []),
  ];
  for (const statement of statements)
    for await (const decoded of fleet.connection.select(statement, { whole: true }))
      for (const scanned of blocks.read(decoded, 1)) return readBlockEvents(scanned)[0];
  return undefined;
}
