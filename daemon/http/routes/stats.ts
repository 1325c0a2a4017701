/** Aggregates over events. */

import { type Response, Router } from 'express';
import type { z } from 'zod';
import { nextPiece } from '../../pace.ts';
import { spansFor } from '../../query/coverage.ts';
import { createStats, type Stats, statsColumns } from '../../query/stats.ts';
import { parseStatsQuery, type StatsQuery } from '../../query/stats_query.ts';
import { coverageFor } from '../../query/transaction_coverage.ts';
import type { Store } from '../../store/store.ts';
import type { Scan, ScanGate } from '../access/scan_gate.ts';
import type { statsSchema } from '../contract/answers.ts';
import { isOpen } from '../ndjson.ts';
import { methodNotAllowed } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';

interface Options {
  store: Store;
  now: () => bigint;
  scanGate: ScanGate;
}

export function statsRoutes({ store, now, scanGate }: Options): Router {
  const router = Router();
  router
    .route('/stats')
    .get(async (req, res) => {
      const nowNs = now();
      const query = parseStatsQuery(req.query as never, nowNs);
      const turn = await scanGate.enter(res);
      const spans = spansFor(store, query.filter.nodes, nowNs);
      const found = await statsFor(res, store, query, turn);
      if (!found) return;
      // Coverage is determined after the scan, because reading is what finds unreadable recordings.
      const coverage = coverageFor(store, spans, { filter: query.filter, nowNs });
      sendJson(res, 200, { ...found, coverage } satisfies z.input<typeof statsSchema>);
    })
    .all(methodNotAllowed('GET', 'HEAD'));
  return router;
}

/** Returns undefined if the client has disconnected. */
async function statsFor(
  res: Response,
  store: Store,
  { filter, bucketNs, groupBy }: StatsQuery,
  turn: Scan,
): Promise<ReturnType<Stats['finish']> | undefined> {
  const stats = createStats({ bucketNs, groupBy });
  for (const scanned of turn.whole(store.scan({ filter, order: 'asc', columns: statsColumns(groupBy) }))) {
    stats.add(scanned);
    if (scanned.nextAtHand) continue;
    await nextPiece();
    if (!isOpen(res)) return undefined;
  }
  return stats.finish();
}
