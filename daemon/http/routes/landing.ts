import { Router } from 'express';
import { noParameters } from '../../query/parameters.ts';
import { parseQuery } from '../../query/query_string.ts';
import { methodNotAllowed } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';

/** Links for a person who enters the daemon's address into a browser. */
const LINKS = {
  events: '/api/events',
  transactions: '/api/transactions',
  stats: '/api/stats',
  event_types: '/api/event-types',
  services: '/api/services',
  nodes: '/api/nodes',
  pins: '/api/pins',
  replay_sessions: '/api/replay/sessions',
  health: '/healthz',
  ready: '/readyz',
  openapi: '/openapi.json',
  docs: '/docs',
  guide: '/docs/guide/',
  metrics: '/metrics',
};

export function landingPage(): Router {
  const router = Router();
  router
    .route('/')
    .get((req, res) => {
      parseQuery(req.query, noParameters);
      sendJson(res, 200, { name: 'kreplay', links: LINKS });
    })
    .all(methodNotAllowed('GET', 'HEAD'));
  return router;
}
