import { Router } from 'express';
import { z } from 'zod';
import { noParameters } from '../../contract/parameters.ts';
import { parseQuery } from '../../contract/query_string.ts';
import type { MetricSources, Metrics } from '../../metrics/metrics.ts';
import { refuseOtherMethods } from '../problem_handler.ts';

export const metricsQuery = noParameters;

export const metricsResponse = z.string().meta({
  description: 'The text format of Prometheus, version 0.0.4; daemon/docs/operate.md has a table of the metrics.',
});

export function createMetricsRoutes(metrics: Metrics, sources: MetricSources): Router {
  const router = Router();
  router
    .route('/metrics')
    .get(async (req, res) => {
      parseQuery(req.query, metricsQuery);
      const text = await metrics.collectText(sources);
      res.set('Content-Type', metrics.contentType).send(text);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  return router;
}
