/** Lists the values that a query's filters accept. */
import { Router } from 'express';
import { z } from 'zod';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { noParameters } from '../../contract/parameters.ts';
import { parseQuery } from '../../contract/query_string.ts';
import type { Store } from '../../store/store.ts';
import { refuseOtherMethods } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';

export const eventTypesSchema = z.object({
  event_types: z.array(z.object({ name: z.string(), description: z.string() })),
});
const complete = z.literal(false).optional().meta({
  description: 'only while a shard of a fleet is away: names that it alone has may be missing',
});
export const servicesSchema = z.object({
  services: z.array(z.string()).meta({ description: 'of all that own an event or a part of one, sorted' }),
  complete,
});
export const nodesSchema = z.object({
  nodes: z.array(z.string()).meta({ description: 'that were recorded, sorted' }),
  complete,
});

export function nameRoutes(store: Store): Router {
  const router = Router();
  const list = (path: string, body: () => Promise<object>) =>
    router
      .route(path)
      .get(async (req, res) => {
        parseQuery(req.query, noParameters);
        const shards = store.fleet?.watchShards();
        const names = await body();
        sendJson(res, 200, { ...names, ...(shards?.isPartial() && { complete: false }) });
      })
      .all(refuseOtherMethods('GET', 'HEAD'));
  list('/event-types', async () => ({ event_types: EVENTS.map(({ name, doc }) => ({ name, description: doc })) }));
  list('/services', async () => ({ services: await store.listServices() }));
  list('/nodes', async () => ({ nodes: await store.listNodes() }));
  return router;
}
