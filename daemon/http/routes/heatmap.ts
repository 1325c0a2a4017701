/** Heat maps of events or transactions, by start and duration. */
import { Router } from 'express';
import type { z } from 'zod';
import { addTimeTexts } from '../../base/time_text.ts';
import type { heatmapSchema } from '../../contract/heatmap.ts';
import { computeQueryColumns, parseHeatmapQuery } from '../../contract/heatmap_query.ts';
import { beginAnswer } from '../../coverage/answer.ts';
import { ROW_EDGES } from '../../model/duration_rows.ts';
import type { HeatmapRequest, Store, TransactionReach } from '../../store/store.ts';
import { needsEvents } from '../../sums/differences/chosen_transactions.ts';
import type { Heatmap, HeatmapColumns } from '../../sums/heatmap.ts';
import type { ScanGate } from '../access/scan_gate.ts';
import { refuseOtherMethods } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';
import { runToEnd } from './run_in_steps.ts';

interface Options {
  store: Store;
  now: () => bigint;
  scanGate: ScanGate;
}

type HeatmapBody = z.input<typeof heatmapSchema>;

export function createHeatmapRoutes({ store, now, scanGate }: Options): Router {
  const router = Router();
  router
    .route('/heatmap')
    .get(async (req, res) => {
      const nowNs = now();
      const query = parseHeatmapQuery(req.query as never, nowNs);
      const { columnCount: _, detail, ...population } = query;
      const keepsEvents = query.of === 'transactions' && needsEvents(query.filter);
      const slot = await scanGate.enter(res, { keepsEvents });
      const filter = population.of === 'events' ? population.filter : undefined;
      const answer = await beginAnswer(store, { nowNs, filter });
      const states = await store.listRecordingStates();
      const computeColumns = (reach: TransactionReach | null) =>
        computeQueryColumns(query, states, answer.spans, reach);
      const request: HeatmapRequest =
        population.of === 'events'
          ? { ...population, columns: computeColumns(null) }
          : { ...population, computeColumns };
      const found = await runToEnd(res, slot, answer.store.computeHeatmap(request));
      if (!found) return;
      const { map, columns, reach } = found;
      // The coverage refers to the time range of the query. Without `to`, the range ends at the end of the recording.
      const coverage = await answer.describe(await answer.coverPopulation(population, reach), detail);
      sendJson(res, 200, { of: query.of, ...buildHeatmapView(map, columns), coverage } satisfies HeatmapBody);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  return router;
}

function buildHeatmapView({ cells, total }: Heatmap, { fromNs, toNs, columnNs, count }: HeatmapColumns) {
  const quads = Array.from({ length: cells.length / 4 }, (_, i) => [...cells.subarray(i * 4, i * 4 + 4)] as Quad);
  const rows = quads.map(([, row]) => row);
  const first = rows.reduce((least, row) => Math.min(least, row), rows[0] ?? 0);
  const end = rows.reduce((most, row) => Math.max(most, row + 1), first);
  return {
    ...addTimeTexts({ from: fromNs, to: toNs }),
    column_ns: columnNs,
    column_count: count,
    first_row: first,
    row_edges: end > first ? ROW_EDGES.slice(first, end + 1) : [],
    cells: quads,
    total: {
      count: total.count,
      failed: total.failed,
      duration_ns: { sum: total.durationNs, max: total.count === 0 ? null : total.maxNs },
    },
  };
}

type Quad = HeatmapBody['cells'][number];
