import { Router } from 'express';
import { methodNotAllowed } from '../errors.ts';
import { sendJson } from '../json.ts';
import type { Store } from '../store/store.ts';

export function healthRoutes(store: Store): Router {
  const router = Router();
  router
    .route('/healthz')
    .get((_req, res) => sendJson(res, 200, { status: 'ok' }))
    .all(methodNotAllowed('GET', 'HEAD'));
  router
    .route('/readyz')
    .get((_req, res) => {
      const recordings = store.info().recordings.map(({ recordingId, node }) => ({ recording_id: recordingId, node }));
      sendJson(res, 200, { status: 'ready', recordings });
    })
    .all(methodNotAllowed('GET', 'HEAD'));
  return router;
}
