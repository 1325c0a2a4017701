/** The store of a fleet: tables of ClickHouse that the nodes' senders fill. */
import { Problem } from '../../problem.ts';
import { KEPT_EVENTS_MAX } from '../../sums/differences/chosen_transactions.ts';
import { jsonPieces } from '../blocks/event_json.ts';
import type { Store, TransactionFilter } from '../store.ts';
import { type Fleet, withFleetErrors, withFleetErrorsIn } from './fleet.ts';
import { fleetHealth } from './fleet_health.ts';
import { lossesIn, nodesIn, servicesIn, spansIn } from './fleet_info.ts';
import { foundEvent } from './found_event.ts';
import { listedTransactions } from './listed_transactions.ts';
import { scanFleet } from './scan.ts';
import type { ChosenFilter } from './selected_transactions.ts';
import { statsIn } from './summed_stats.ts';
import { chosenFilter, compareIn, heatmapIn, slowestIn } from './sums.ts';
import { transactionsById } from './transactions_by_id.ts';

/** The store takes the connection over: it closes it. A filter of transactions may need `eventsMax` events. */
export function fleetStore(fleet: Fleet, eventsMax = KEPT_EVENTS_MAX): Store {
  async function* chosen(filter: TransactionFilter): AsyncGenerator<void, ChosenFilter> {
    const found = yield* chosenFilter(fleet, filter, eventsMax);
    if (found) return found;
    const detail = `more than ${eventsMax} events would have to be read: ask for a window of less time`;
    throw new Problem('too_many_events', detail);
  }

  return {
    fleet: fleetHealth(fleet),
    recordingStates: async () => [],
    unreadable: async () => [],
    scan: (request) => withFleetErrorsIn(scanFleet(fleet, request)),
    scanJson: (request) => withFleetErrorsIn(jsonPieces(scanFleet(fleet, request), '\n')),
    stats: (request) => withFleetErrorsIn(statsIn(fleet, request)),
    slowest: (request) => withFleetErrorsIn(slowestIn(fleet, request)),
    heatmap: (request) => withFleetErrorsIn(heatmapIn(fleet, request, chosen)),
    compare: (request) => withFleetErrorsIn(compareIn(fleet, request)),
    startFollowing: async () => notServed('the tail'),
    positionOf: () => undefined,
    follow: async () => notServed('the tail'),
    event: (eventId) => withFleetErrors(() => foundEvent(fleet, eventId)),
    transaction: (id) => withFleetErrors(async () => (await transactionsById(fleet, [id])).get(id)),
    transactions: (request) =>
      withFleetErrorsIn(
        (async function* () {
          return yield* listedTransactions(fleet, { ...request, filter: yield* chosen(request.filter) });
        })(),
      ),
    pin: async () => notServed('pinning'),
    unpin: async () => notServed('pinning'),
    pins: async () => [],
    services: () => withFleetErrors(() => servicesIn(fleet)),
    nodes: () => withFleetErrors(() => nodesIn(fleet)),
    losses: (fromNs, toNs, nodes) => withFleetErrors(() => lossesIn(fleet, fromNs, toNs, nodes)),
    spans: (nodes) => withFleetErrors(() => spansIn(fleet, nodes)),
    close: async () => fleet.connection.close(),
  };
}

function notServed(what: string): never {
  throw new Problem('not_found', `${what} is not served from the tables of a fleet yet: ask the daemon of a node`);
}
