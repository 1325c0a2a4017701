/** The HTTP surface, put together. It never listens and reads no clock of its own, so a test can hold all of it. */
import express from 'express';
import helmet from 'helmet';
import type { Logger } from 'pino';
import { localOnly } from './access.ts';
import { notFoundHandler, problemHandler } from './errors.ts';
import { queryOf, readBody } from './input.ts';
import type { Sessions } from './replay/sessions.ts';
import { requestId } from './request_id.ts';
import { mountedAt, requestLog } from './request_log.ts';
import { documentRoutes } from './routes/document.ts';
import { eventRoutes } from './routes/events.ts';
import { healthRoutes } from './routes/health.ts';
import { landingPage } from './routes/landing.ts';
import { nameRoutes } from './routes/names.ts';
import { pinRoutes } from './routes/pins.ts';
import { replayRoutes } from './routes/replay.ts';
import { transactionRoutes } from './routes/transactions.ts';
import type { Store } from './store/store.ts';

export interface AppOptions {
  store: Store;
  sessions: Sessions;
  /** Wall clock, nanoseconds since the epoch. */
  now: () => bigint;
  log: Logger;
}

export function buildApp({ store, sessions, now, log }: AppOptions): express.Express {
  const app = express();
  app.set('query parser', queryOf);
  app.set('case sensitive routing', true);
  // An answer is never cached, so a hash of it serves nobody.
  app.set('etag', false);
  app.disable('x-powered-by');

  app.use(requestId, requestLog(log), securityHeaders(), localOnly, readBody);
  app.use(landingPage());
  app.use(documentRoutes());
  app.use(healthRoutes(store));
  const mount = (path: string, router: express.Router) => app.use(path, mountedAt(path), router);
  mount('/api/events', eventRoutes({ store, now }));
  mount('/api/transactions', transactionRoutes(store));
  mount('/api/replay/sessions', replayRoutes(sessions));
  mount('/api', pinRoutes({ store, now }));
  mount('/api', nameRoutes(store));
  app.use(notFoundHandler);
  app.use(problemHandler(log));
  return app;
}

function securityHeaders(): express.RequestHandler[] {
  const headers = helmet({
    // Served over plain HTTP: both would make a browser look for a TLS port that is not there.
    strictTransportSecurity: false,
    contentSecurityPolicy: { directives: { 'upgrade-insecure-requests': null } },
    // The Perfetto page has to keep the handle of the window that opened it.
    crossOriginOpenerPolicy: false,
  });
  return [
    headers,
    (_req, res, next) => {
      res.set('Cache-Control', 'no-store');
      next();
    },
  ];
}
