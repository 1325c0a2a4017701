/** Assembles the HTTP interface. The caller provides the listening socket and the clock, so a test can control both. */

import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import express, { Router } from 'express';
import helmet from 'helmet';
import type { Logger } from 'pino';
import { stringify } from '../base/exact_json.ts';
import { openApiDocument } from '../contract/openapi.ts';
import { noParameters } from '../contract/parameters.ts';
import { parseQuery, parseQueryString } from '../contract/query_string.ts';
import { type AccessOptions, createAccessHandlers } from '../http/access/access.ts';
import { createScanGate, type ScanGate } from '../http/access/scan_gate.ts';
import { createStreamRoom } from '../http/access/stream_room.ts';
import { readBody } from '../http/body.ts';
import { createProblemHandler, notFoundHandler, refuseEmptyName, refuseOtherMethods } from '../http/problem_handler.ts';
import { createMountHandler, requestId, requestLog } from '../http/request_log.ts';
import { createAccessRoutes } from '../http/routes/access.ts';
import { createDifferencesRoutes } from '../http/routes/differences.ts';
import { createEventRoutes } from '../http/routes/events.ts';
import { createHealthRoutes } from '../http/routes/health.ts';
import { createHeatmapRoutes } from '../http/routes/heatmap.ts';
import { createMetricsRoutes } from '../http/routes/metrics.ts';
import { nameRoutes } from '../http/routes/names.ts';
import { createPageRoutes } from '../http/routes/page.ts';
import { pinRoutes } from '../http/routes/pins.ts';
import { createReplayRoutes } from '../http/routes/replay.ts';
import { createStatsRoutes } from '../http/routes/stats.ts';
import { createTransactionRoutes } from '../http/routes/transactions.ts';
import { createWhatIfRoutes } from '../http/routes/what_if.ts';
import { createMetrics, type Metrics } from '../metrics/metrics.ts';
import type { Sessions } from '../replay/session/sessions.ts';
import type { Store } from '../store/store.ts';
import type { Tails } from '../tail/tails.ts';

export interface AppOptions {
  store: Store;
  sessions: Sessions;
  tails: Tails;
  /** Wall clock in nanoseconds since the epoch. */
  now: () => bigint;
  log: Logger;
  /** If omitted, only local programs have access, and they need no token. */
  allowed?: AccessOptions;
  scanGate?: ScanGate;
  /** Metrics in which `sessions` count their events; if omitted, played events are not counted. */
  metrics?: Metrics | undefined;
  /** The path served by --data, whose agent's metrics are requested. */
  data?: string | undefined;
  /** State folder of a shipper on this host, whose metrics are requested. */
  shipState?: string | undefined;
  /** Minimum duration in milliseconds of a request that is logged as slow. */
  slowMs?: number | undefined;
}

export const SLOW_MS_DEFAULT = 1000;

export function buildApp(options: AppOptions): express.Express {
  const { store, sessions, tails, now, log, metrics = createMetrics(), data, slowMs = SLOW_MS_DEFAULT } = options;
  const { shipState, allowed = {}, scanGate = createScanGate({ nowMs: () => performance.now() }) } = options;
  const app = express();
  app.set('query parser', parseQueryString);
  app.set('case sensitive routing', true);
  // Answers are never cached, so computing an ETag is useless.
  app.set('etag', false);
  app.disable('x-powered-by');

  app.use(requestId, requestLog({ log, slowMs, onEnd: metrics.requestEnded }), metrics.watchStreams);
  app.use(createSecurityHeaders(), createAccessHandlers(allowed), readBody, refuseEmptyName);
  app.use(createPageRoutes());
  app.use(createDocumentRoutes());
  app.use(createHealthRoutes({ store, sessions, now, data }));
  app.use(createMetricsRoutes(metrics, { store, sessions, now, data, shipState }));
  const streamRoom = createStreamRoom();
  const mount = (path: string, router: express.Router) => app.use(path, createMountHandler(path), router);
  mount('/api/events', createEventRoutes({ store, now, scanGate, streamRoom, tails }));
  mount('/api/transactions', createTransactionRoutes({ store, now, scanGate }));
  mount('/api/replay/sessions', createReplayRoutes({ store, sessions, scanGate, streamRoom }));
  mount('/api/replay/whatif', createWhatIfRoutes({ store, sessions, now, scanGate }));
  mount('/api', pinRoutes({ store, now }));
  mount('/api', createStatsRoutes({ store, now, scanGate }));
  mount('/api', createDifferencesRoutes({ store, now, scanGate }));
  mount('/api', createHeatmapRoutes({ store, now, scanGate }));
  mount('/api', nameRoutes(store));
  mount('/api', createAccessRoutes(allowed));
  app.use(notFoundHandler);
  app.use(createProblemHandler(log));
  return app;
}

function createSecurityHeaders(): express.RequestHandler[] {
  const createHeaders = (tls: boolean) =>
    helmet({
      // Over plain HTTP, both headers would make a browser use a TLS port that does not exist.
      strictTransportSecurity: tls && { includeSubDomains: false },
      contentSecurityPolicy: { directives: { 'upgrade-insecure-requests': tls ? [] : null } },
      // Over plain HTTP, except from localhost, a browser ignores this header, and warns about it in the console.
      crossOriginOpenerPolicy: tls && { policy: 'same-origin' },
    });
  const overTls = createHeaders(true);
  const plain = createHeaders(false);
  return [
    (req, res, next) => (req.secure ? overTls : plain)(req, res, next),
    (_req, res, next) => {
      res.set('Cache-Control', 'no-store');
      next();
    },
  ];
}

/*
 * Serves the API's description as a document and as a page, and serves the guide. The pages load nothing from other
 * sites. Their addresses are relative, because a proxy may serve them under a path.
 */

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>kreplay API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<main id="api"></main>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/show.js"></script>
</body>
</html>
`;

/** Without `validatorUrl: null`, the page would send the document to a server of Swagger UI's developers. */
const SHOW = `SwaggerUIBundle({ url: 'openapi.json', dom_id: '#api', validatorUrl: null });
`;

const createPackagedReader = (name: string) => () =>
  readFileSync(fileURLToPath(import.meta.resolve(`swagger-ui-dist/${name}`)));

interface File {
  type: string;
  read: () => string | Buffer;
}

const FILES: Readonly<Record<string, File>> = {
  '/docs': { type: 'html', read: () => PAGE },
  '/docs/show.js': { type: 'js', read: () => SHOW },
  '/docs/swagger-ui.css': { type: 'css', read: createPackagedReader('swagger-ui.css') },
  '/docs/swagger-ui-bundle.js': { type: 'js', read: createPackagedReader('swagger-ui-bundle.js') },
};

/**
 * Redirects for addresses whose final slash is missing or superfluous: a browser resolves the relative links of a page
 * from the last slash of the page's address.
 */
const LEAD_TO = new Map([
  ['/docs/', '../docs'],
  ['/docs/guide', 'guide/'],
]);

const GUIDE = dirname(fileURLToPath(import.meta.resolve('#guide/index.html')));

function createDocumentRoutes(): Router {
  const router = Router();
  router.use((req, res, next) => {
    const place = LEAD_TO.get(req.path);
    if (place === undefined || (req.method !== 'GET' && req.method !== 'HEAD')) next();
    else res.redirect(301, place);
  });
  router.use('/docs/guide', express.static(GUIDE, { dotfiles: 'ignore', redirect: false }));
  const serve = (path: string, { type, read }: File) => {
    // The file is read on first use, which saves 1.5 MiB of memory for a page that is rarely requested.
    let body: string | Buffer | undefined;
    router
      .route(path)
      .get((req, res) => {
        parseQuery(req.query, noParameters);
        body ??= read();
        res.type(type).send(body);
      })
      .all(refuseOtherMethods('GET', 'HEAD'));
  };
  serve('/openapi.json', { type: 'application/json', read: () => stringify(openApiDocument()) });
  for (const [path, file] of Object.entries(FILES)) serve(path, file);
  return router;
}
