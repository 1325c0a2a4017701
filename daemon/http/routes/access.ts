/** Reports what a client's token permits, so that the web page can hide all other functions. */

import { Router } from 'express';
import type { z } from 'zod';
import type { accessResponse } from '../../contract/answers.ts';
import { noParameters } from '../../contract/parameters.ts';
import { parseQuery } from '../../contract/query_string.ts';
import { SCOPES } from '../../contract/words.ts';
import type { AccessOptions } from '../access/access.ts';
import { refuseOtherMethods } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';

export function createAccessRoutes({ bearer }: Pick<AccessOptions, 'bearer'>): Router {
  const router = Router();
  router
    .route('/access')
    .get((req, res) => {
      parseQuery(req.query, noParameters);
      const token = bearer?.answers.getToken(res);
      const expiresMs = token?.expiresMs ?? null;
      sendJson(res, 200, {
        token_needed: bearer !== undefined,
        name: token?.name ?? null,
        scopes: SCOPES.filter((scope) => !bearer || token?.scopes.has(scope)),
        expires_at: expiresMs === null ? null : new Date(expiresMs).toISOString(),
      } satisfies z.infer<typeof accessResponse>);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  return router;
}
