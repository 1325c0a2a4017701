import { Router } from 'express';
import { methodNotAllowed, Problem } from '../errors.ts';
import { parseQuery } from '../input.ts';
import { sendJson } from '../json.ts';
import { noParameters } from '../query/parameters.ts';
import type { Store } from '../store/store.ts';

export function transactionRoutes(store: Store): Router {
  const router = Router();
  router
    .route('/:transaction_id')
    .get((req, res) => {
      parseQuery(req.query, noParameters);
      const id = req.params.transaction_id;
      const transaction = store.transaction(id);
      if (!transaction) throw new Problem('transaction_not_found', `no events of transaction ${id} are recorded`);
      sendJson(res, 200, {
        transaction_id: transaction.transactionId,
        trace_id: transaction.traceId,
        first_timestamp_ns: transaction.firstTimestampNs,
        last_end_ns: transaction.lastEndNs,
        duration_ns: transaction.lastEndNs - transaction.firstTimestampNs,
        event_count: transaction.eventCount,
        error_count: transaction.errorCount,
        slowest_event_id: transaction.slowestEventId,
        services: transaction.services,
        nodes: transaction.nodes,
        pinned: store.pins(id).length > 0,
      });
    })
    .all(methodNotAllowed('GET', 'HEAD'));
  return router;
}
