/** Tests the OpenAPI document: it lists every route and no other, and only errors that exist. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Router } from 'express';
import { pino } from 'pino';
import { ERRORS, type ErrorCode } from '../../../daemon/base/problem.ts';
import { formatTime, nameTimeText } from '../../../daemon/base/time_text.ts';
import { EXAMPLES } from '../../../daemon/contract/gen/examples.ts';
import { COMMON_ERRORS, ENDPOINTS, listErrorCodes, openApiDocument } from '../../../daemon/contract/openapi.ts';
import { createPlanner } from '../../../daemon/replay/plan/planner.ts';
import { createSessions } from '../../../daemon/replay/session/sessions.ts';
import { buildApp } from '../../../daemon/server/app.ts';
import { createEmbeddedStore } from '../../../daemon/store/embedded/embedded_store.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { createTails } from '../../../daemon/tail/tails.ts';
import { newFolder, recorded, START } from '../recorded.ts';
import { served } from '../served.ts';

/** Files of the page that shows the document. */
const PAGE_FILES = ['/docs/show.js', '/docs/swagger-ui.css', '/docs/swagger-ui-bundle.js'];

/** Paths that answer browsers only: the documented ones are for programs. */
const FOR_BROWSERS = [...PAGE_FILES, '/page/{}'];

/** Paths as the routers declare them, relative to where they are mounted. */
function routesOf(router: Router): string[] {
  return router.stack.flatMap((layer) => {
    if (layer.route) return [String(layer.route.path)];
    const inner = layer.handle as unknown as Partial<Router>;
    return inner.stack ? routesOf(inner as Router) : [];
  });
}

const inDocument = (path: string) => path.replaceAll(/:\w+/g, '{}').replace(/^\/$/, '');

test('every route is in the document', async () => {
  const recordings = openRecordingStore(newFolder());
  const store = createEmbeddedStore(recordings);
  const now = () => START;
  const sessions = createSessions({ planner: createPlanner(recordings), now });
  const log = pino({ level: 'silent' });
  const app = buildApp({ store, sessions, tails: createTails({ store, now, log }), now, log });
  const documented = [...new Set(ENDPOINTS.map(({ path }) => path.replaceAll(/\{\w+\}/g, '{}')))];
  const routes = routesOf(app.router as unknown as Router).map(inDocument);
  await sessions.close();
  recordings.close();
  expect(routes.filter((route) => ![...documented, ...FOR_BROWSERS].some((path) => path.endsWith(route)))).toEqual([]);
  expect(routes).toHaveLength(documented.length + FOR_BROWSERS.length);
});

test('everything that the document describes exists', async () => {
  const app = await served(recorded([{ at: START }]));
  const found = await Promise.all(
    ENDPOINTS.map(async ({ path, method }) => {
      const { json } = await app.get(path.replaceAll(/\{\w+\}/g, 'x'), { method: method.toUpperCase() });
      return [path, json?.code];
    }),
  );
  expect(found.filter(([, code]) => code === 'not_found' || code === 'method_not_allowed')).toEqual([]);
});

test('each kind of error belongs to an endpoint, or to requests that reach none', () => {
  const elsewhere: ErrorCode[] = ['not_found', 'method_not_allowed'];
  const told = new Set([...ENDPOINTS.flatMap(listErrorCodes), ...COMMON_ERRORS, ...elsewhere]);
  expect([...told].sort()).toEqual(Object.keys(ERRORS).sort());
});

test('each error in the sources is in the table, and each in the table is used', () => {
  const table = readFileSync(join(import.meta.dirname, '../../../daemon/docs/api.md'), 'utf8');
  const inPage = [...table.matchAll(/^\| `(\w+)` \| \d{3} \|/gm)].map(([, code]) => code!);
  expect(inPage).toEqual(Object.keys(ERRORS));
});

test('64-bit integers have the format int64', () => {
  const { components } = openApiDocument();
  const event = components!.schemas!.sys_write as { properties: Record<string, object> };
  expect(event.properties.timestamp_ns).toMatchObject({ type: 'integer', format: 'int64' });
  expect(event.properties.bytes_requested).toMatchObject({
    anyOf: [{ type: 'integer', format: 'int64' }, { type: 'null' }],
  });
});

test('beside each time in nanoseconds is the same time as text', () => {
  const { components, paths } = openApiDocument();
  const answers = Object.values(paths!).flatMap((path) =>
    Object.values(path as Record<string, { responses?: object }>).map(({ responses }) => responses),
  );
  const alone: string[] = [];
  let count = 0;
  visitObjects([components!.schemas, answers], ({ properties }) => {
    const fields = (properties ?? {}) as Record<string, { description?: string; format?: string }>;
    for (const [name, field] of Object.entries(fields)) {
      if (!field.description?.includes('nanoseconds since the epoch')) continue;
      count++;
      const text = fields[nameTimeText(name)] as Record<string, unknown> | undefined;
      if (!JSON.stringify(text ?? null).includes('"format":"date-time"')) alone.push(name);
    }
  });
  expect(alone).toEqual([]);
  expect(count).toBeGreaterThan(20);
});

test('in the examples, each text is the time beside it', () => {
  let count = 0;
  const check = (fields: Record<string, unknown>) => {
    for (const [name, ns] of Object.entries(fields)) {
      const text = fields[nameTimeText(name)];
      if (typeof text !== 'string' || !/^\d{4}-.*Z$/.test(text)) continue;
      expect([name, text]).toEqual([name, formatTime(BigInt(ns as number))]);
      count++;
    }
  };
  visitObjects(EXAMPLES, check);
  expect(count).toBeGreaterThan(50);
});

/** Calls a function with each object in a value. */
function visitObjects(value: unknown, onObject: (fields: Record<string, unknown>) => void): void {
  if (typeof value !== 'object' || value === null) return;
  if (!Array.isArray(value)) onObject(value as Record<string, unknown>);
  for (const inner of Object.values(value)) visitObjects(inner, onObject);
}

test('the page loads nothing from other hosts', async () => {
  const app = await served(newFolder());
  const { text, headers } = await app.get('/docs');
  const loaded = [...text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address!);
  expect(loaded.map((address) => `/${address}`).toSorted()).toEqual(PAGE_FILES.toSorted());
  for (const address of loaded) expect((await app.get(`/${address}`)).status).toBe(200);
  expect(headers['content-security-policy']).toContain("script-src 'self'");
});
