/** The watcher's own address: alerts, metrics and health, with the access rules of the daemon. */
import express from 'express';
import type { Logger } from 'pino';
import { type AccessOptions, createAccessHandlers } from '../http/access/access.ts';
import { parseBody, readBody } from '../http/body.ts';
import { createProblemHandler, notFoundHandler, refuseOtherMethods } from '../http/problem_handler.ts';
import { requestId, requestLog } from '../http/request_log.ts';
import { sendJson } from '../http/send_json.ts';
import type { WatchCounters } from '../metrics/watch_counters.ts';
import { createWatchMetrics, type WatchGauges } from '../metrics/watch_metrics.ts';
import { alertmanagerBody, type TakeAlerts } from './alerts.ts';

export interface WatchAppOptions {
  allowed: AccessOptions;
  takeAlerts: TakeAlerts;
  counters: WatchCounters;
  readGauges: () => WatchGauges;
  log: Logger;
}

const SLOW_MS = 1000;

export function buildWatchApp({ allowed, takeAlerts, counters, readGauges, log }: WatchAppOptions): express.Express {
  const metrics = createWatchMetrics();
  const app = express();
  app.set('etag', false);
  app.set('case sensitive routing', true);
  app.disable('x-powered-by');
  app.use(requestId, requestLog({ log, slowMs: SLOW_MS, onEnd() {} }), createAccessHandlers(allowed), readBody);
  app
    .route('/alerts')
    .post(async (req, res) => {
      const { alerts } = parseBody(req, alertmanagerBody);
      sendJson(res, 200, await takeAlerts(alerts));
    })
    .all(refuseOtherMethods('POST'));
  app
    .route('/metrics')
    .get(async (_req, res) => {
      const text = await metrics.collectText(counters, readGauges());
      res.set('Content-Type', metrics.contentType).send(text);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  app
    .route('/healthz')
    .get((_req, res) => sendJson(res, 200, { status: 'ok' }))
    .all(refuseOtherMethods('GET', 'HEAD'));
  app.use(notFoundHandler);
  app.use(createProblemHandler(log));
  return app;
}
