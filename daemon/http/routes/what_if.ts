/** Computes the effect of extra latency on a transaction without playing it. */
import { Router } from 'express';
import { noParameters } from '../../query/parameters.ts';
import { parseQuery } from '../../query/query_string.ts';
import { whatIfRequest } from '../../replay/contract.ts';
import { clockView } from '../../replay/plan/clock_offsets.ts';
import type { Sessions } from '../../replay/session/sessions.ts';
import type { ScanGate } from '../access/scan_gate.ts';
import { parseBody } from '../body.ts';
import { methodNotAllowed } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';

export function whatIfRoutes(sessions: Sessions, scanGate: ScanGate): Router {
  const router = Router();
  router
    .route('/')
    .post(async (req, res) => {
      parseQuery(req.query, noParameters);
      const asked = parseBody(req, whatIfRequest);
      const { transaction_id, extra_latency_ns, timeout_ns, only, limit } = asked;
      // Takes a turn, because all events of the transaction are read.
      await scanGate.enter(res);
      const found = await sessions.whatIf({
        transactionId: transaction_id,
        extraLatencyNs: extra_latency_ns,
        timeoutNs: timeout_ns,
        clockOffsetsNs: asked.clock_offsets_ns,
        only: { eventTypes: only.event_type, services: only.service, nodes: only.node },
        limit,
      });
      sendJson(res, 200, {
        transaction_id,
        extra_latency_ns,
        timeout_ns,
        clock: found.clocks.map(clockView),
        event_count: found.eventCount,
        written_back_count: found.writtenBackCount,
        affected_count: found.affectedCount,
        duration_ns: found.recordedDurationNs,
        replay_duration_ns: found.durationNs,
        times_out: found.afterTimeoutCount > 0,
        after_timeout_count: found.afterTimeoutCount,
        smallest_latency_ns: found.smallestLatencyNs,
        after_timeout: found.afterTimeout.map(({ event, offsetNs, durationNs }) => ({
          ...event,
          replay_offset_ns: offsetNs,
          replay_duration_ns: durationNs,
        })),
      });
    })
    .all(methodNotAllowed('POST'));
  return router;
}
