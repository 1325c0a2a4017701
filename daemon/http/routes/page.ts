/** Serves the web page, and links for programs that request the daemon's bare address. */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { type Request, type Response, Router } from 'express';
import { noParameters } from '../../contract/parameters.ts';
import { parseQuery } from '../../contract/query_string.ts';
import { isPageRequest, PAGE_FILES } from '../access/browsers.ts';
import { notFoundHandler, refuseOtherMethods } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';

/**
 * Links for a person who requests the daemon's address with a command such as curl. The links are relative, because a
 * proxy may serve the daemon under a path.
 */
const LINKS = {
  events: 'api/events',
  transactions: 'api/transactions',
  stats: 'api/stats',
  event_types: 'api/event-types',
  services: 'api/services',
  nodes: 'api/nodes',
  pins: 'api/pins',
  access: 'api/access',
  replay_sessions: 'api/replay/sessions',
  health: 'healthz',
  ready: 'readyz',
  openapi: 'openapi.json',
  docs: 'docs',
  guide: 'docs/guide/',
  metrics: 'metrics',
};

const INDEX_NAME = 'index.html';
const INDEX = fileURLToPath(import.meta.resolve('#page/index.html'));

/** With this policy, the page loads only its own files and runs no text as a script, and no other page can frame it. */
const POLICY = [
  ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data: blob:"],
  ...["connect-src 'self'", "worker-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  ...["require-trusted-types-for 'script'", 'trusted-types kreplay'],
].join('; ');

/** Cache-Control value for files that never change, because their names are derived from their content. */
const FOREVER = 'public, max-age=31536000, immutable';

export function createPageRoutes(folder = dirname(INDEX)): Router {
  // All files are read at the start: if the package is upgraded while the daemon runs, the files' names change.
  const names = readdirSync(folder).filter((name) => /^index\.html$|-[0-9a-f]{16}\.(js|css|svg)$/.test(name));
  const files = new Map(names.map((name) => [name, readFileSync(join(folder, `${name}.gz`))]));
  const send = (req: Request, res: Response, name: string) => {
    res.vary('Accept-Encoding').type(name.slice(name.lastIndexOf('.')));
    const isCompressed = req.acceptsEncodings(['gzip', 'identity']) === 'gzip';
    if (isCompressed) res.set('Content-Encoding', 'gzip');
    const compressed = files.get(name)!;
    res.send(isCompressed ? compressed : gunzipSync(compressed));
  };
  const router = Router();
  router
    .route('/')
    .get((req, res) => {
      res.vary('Accept');
      if (!isPageRequest(req)) {
        parseQuery(req.query, noParameters);
        return sendJson(res, 200, { name: 'kreplay', links: LINKS });
      }
      res.set('Content-Security-Policy', POLICY).set('X-Frame-Options', 'DENY').set('Cache-Control', 'no-cache');
      send(req, res, INDEX_NAME);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  router
    .route(`${PAGE_FILES}:name`)
    .get((req, res, next) => {
      const { name } = req.params;
      if (name === INDEX_NAME || !files.has(name)) return notFoundHandler(req, res, next);
      res.set('Cache-Control', FOREVER);
      send(req, res, name);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  return router;
}
