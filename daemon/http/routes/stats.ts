/** Sums over events. */

import { type Response, Router } from 'express';
import { z } from 'zod';
import { int64 } from '../../../bpf/schema/api.ts';
import { nextPiece } from '../../pace.ts';
import { coverageSchema, spansFor } from '../../query/coverage.ts';
import { DIMENSION_NAMES } from '../../query/dimensions.ts';
import { createStats, STATS_ROWS_MAX, type Stats, statsColumns } from '../../query/stats.ts';
import { parseStatsQuery, type StatsQuery } from '../../query/stats_query.ts';
import { coverageFor } from '../../query/transaction_coverage.ts';
import type { Store } from '../../store/store.ts';
import type { Scan, ScanGate } from '../access/scan_gate.ts';
import { isOpen } from '../ndjson.ts';
import { methodNotAllowed } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';

const quantile = (description: string) => int64().nullable().meta({ description });

const summed = {
  count: z.int().nonnegative().meta({ description: 'events' }),
  error_count: z.int().nonnegative().meta({ description: 'events that failed' }),
  bytes: z.bigint().meta({ type: 'integer', description: 'that were transferred; exact, however many' }),
  duration_ns: z
    .object({
      p50: quantile('within 1 % (1/128); null without events, like the others'),
      p90: quantile('within 1 %'),
      p99: quantile('within 1 %'),
      max: quantile('exact'),
    })
    .meta({ description: 'quantiles of the durations' }),
};

export const statsSchema = z.object({
  stats: z
    .array(
      z.object({
        bucket_start_ns: int64().nullable().meta({ description: 'null without buckets' }),
        group: z
          .partialRecord(z.enum(DIMENSION_NAMES), z.union([z.string(), z.number()]).nullable())
          .meta({ description: 'a value for each name in group_by; null where an event has none' }),
        ...summed,
      }),
    )
    .max(STATS_ROWS_MAX)
    .meta({ description: 'by bucket, then by group; those without events are left out' }),
  total: z.object(summed).meta({ description: 'over all buckets and groups' }),
  coverage: coverageSchema,
});

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
      // After the scan: what can not be read is found by reading it.
      const coverage = coverageFor(store, spans, { filter: query.filter, nowNs });
      sendJson(res, 200, { ...found, coverage } satisfies z.input<typeof statsSchema>);
    })
    .all(methodNotAllowed('GET', 'HEAD'));
  return router;
}

/** Undefined when nobody waits for it any more. */
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
