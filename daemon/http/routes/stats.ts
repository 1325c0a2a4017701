/** Statistics of events, by time and group. */

import { Router } from 'express';
import type { z } from 'zod';
import { addTimeTexts } from '../../base/time_text.ts';
import type { statsSchema } from '../../contract/answers.ts';
import { parseStatsQuery } from '../../contract/stats_query.ts';
import { beginAnswer } from '../../coverage/answer.ts';
import type { Store } from '../../store/store.ts';
import type { ScanGate } from '../access/scan_gate.ts';
import { refuseOtherMethods } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';
import { runToEnd } from './run_in_steps.ts';

interface Options {
  store: Store;
  now: () => bigint;
  scanGate: ScanGate;
}

export function createStatsRoutes({ store, now, scanGate }: Options): Router {
  const router = Router();
  router
    .route('/stats')
    .get(async (req, res) => {
      const nowNs = now();
      const query = parseStatsQuery(req.query as never, nowNs);
      const slot = await scanGate.enter(res);
      const { filter, bucketNs, groupBy, detail } = query;
      const answer = await beginAnswer(store, { nowNs, nodes: filter.nodes, filter });
      const found = await runToEnd(res, slot, answer.store.computeStats({ filter, bucketNs, groupBy }));
      if (!found) return;
      const coverage = await answer.describe(await answer.coverEvents(filter), detail);
      const stats = found.stats.map(({ bucket_start_ns, ...row }) => ({
        ...addTimeTexts({ bucket_start_ns }),
        ...row,
      }));
      sendJson(res, 200, { stats, total: found.total, coverage } satisfies z.input<typeof statsSchema>);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  return router;
}
