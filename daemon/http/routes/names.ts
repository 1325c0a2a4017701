/** Lists the values that a query's filters accept. */
import { Router } from 'express';
import { z } from 'zod';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { noParameters } from '../../query/parameters.ts';
import { parseQuery } from '../../query/query_string.ts';
import type { Store } from '../../store/store.ts';
import { methodNotAllowed } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';

export const eventTypesSchema = z.object({
  event_types: z.array(z.object({ name: z.string(), description: z.string() })),
});
export const servicesSchema = z.object({
  services: z.array(z.string()).meta({ description: 'of all that own an event or a part of one, sorted' }),
});
export const nodesSchema = z.object({
  nodes: z.array(z.string()).meta({ description: 'that were recorded, sorted' }),
});

export function nameRoutes(store: Store): Router {
  const router = Router();
  const list = (path: string, body: () => Promise<unknown>) =>
    router
      .route(path)
      .get(async (req, res) => {
        parseQuery(req.query, noParameters);
        sendJson(res, 200, await body());
      })
      .all(methodNotAllowed('GET', 'HEAD'));
  list('/event-types', async () => ({ event_types: EVENTS.map(({ name, doc }) => ({ name, description: doc })) }));
  list('/services', async () => ({ services: await store.services() }));
  list('/nodes', async () => ({ nodes: await store.nodes() }));
  return router;
}
