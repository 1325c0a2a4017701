/** Finds the values that distinguish transactions or events in a box of the heat map from those outside the box. */
import { Router } from 'express';
import type { z } from 'zod';
import { addTimeTexts } from '../../base/time_text.ts';
import type { differencesSchema } from '../../contract/differences.ts';
import { comparePopulation, parseDifferencesQuery, type WindowComparison } from '../../contract/differences_query.ts';
import { beginAnswer } from '../../coverage/answer.ts';
import type { Store } from '../../store/store.ts';
import type { Side, SideMedian } from '../../sums/differences/comparison.ts';
import type { ScanGate } from '../access/scan_gate.ts';
import { refuseOtherMethods } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';
import { runToEnd } from './run_in_steps.ts';

interface Options {
  store: Store;
  now: () => bigint;
  scanGate: ScanGate;
}

export function createDifferencesRoutes({ store, now, scanGate }: Options): Router {
  const router = Router();
  router
    .route('/differences')
    .get(async (req, res) => {
      const nowNs = now();
      const { detail, ...query } = parseDifferencesQuery(req.query as never, nowNs);
      const slot = await scanGate.enter(res, { keepsEvents: true });
      const answer = await beginAnswer(store, { nowNs, filter: query.of === 'events' ? query.filter : undefined });
      const found = await runToEnd(res, slot, comparePopulation(answer.store, query));
      if (!found) return;
      const { reach, window } = found;
      const population = { ...query, filter: { ...query.filter, ...window } } as typeof query;
      const coverage = await answer.describe(await answer.coverPopulation(population, reach), detail);
      sendJson(res, 200, { of: query.of, ...buildDifferencesView(found), coverage } satisfies z.input<
        typeof differencesSchema
      >);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  return router;
}

function buildDifferencesView({ comparison, window, isNarrowed }: WindowComparison) {
  return {
    window: { ...addTimeTexts({ from: window.fromNs ?? null, to: window.toNs ?? null }), narrowed: isNarrowed },
    selected: buildSideView(comparison.selected),
    others: buildSideView(comparison.others),
    event_count: comparison.events,
    too_few: comparison.tooFew,
    differences: comparison.rows.map((values) => ({ values })),
    more: comparison.moreRows,
    tried: comparison.tried,
    equal: comparison.equal,
    left_out: comparison.leftOut,
  };
}

function buildSideView({ count, median, ...sums }: Side) {
  return { count, ...buildTimesView(sums), median: buildTimesView(median) };
}

function buildTimesView({ durationNs, parts }: SideMedian) {
  const { queue, service, sync, write, request, untraced } = parts;
  return {
    duration_ns: durationNs,
    breakdown: {
      queue_ns: queue,
      service_ns: service,
      sync_ns: sync,
      write_ns: write,
      request_ns: request,
      untraced_ns: untraced,
    },
  };
}
