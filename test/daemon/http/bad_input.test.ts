/**
 * Tests invalid requests: each gets the right status, the code and the name of the faulty parameter; never a 500, never
 * a wider query.
 */
import { recorded, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';

let served: Served;
beforeAll(async () => {
  served = await serve(recorded([{ at: START, transaction: 'tx' }]));
});
afterAll(() => served.close());

const DIGITS = '9'.repeat(5000);

test.each([
  ['colour=red', 'colour'],
  ['Service=a', 'Service'],
  ['service[]=a', 'service[]'],
  ['__proto__=a', '__proto__'],
  ['constructor=a', 'constructor'],
  ['=a', ''],
  ['transaction_id=', 'transaction_id'],
  ['transaction_id', 'transaction_id'],
  ['transaction_id=a&transaction_id=b', 'transaction_id'],
  ['trace_id=', 'trace_id'],
  ['trace_id=0af7651916cd43dd8448eb211c80319', 'trace_id'],
  ['trace_id=0af7651916cd43dd8448eb211c80319cc', 'trace_id'],
  ['trace_id=0af7651916cd43dd8448eb211c80319g', 'trace_id'],
  ['service=', 'service'],
  ['service=a,,b', 'service'],
  ['service=a&service=', 'service'],
  ['node=', 'node'],
  ['event_type=', 'event_type'],
  ['event_type=sys_read', 'event_type'],
  ['event_type=sys_write,SYS_WRITE', 'event_type'],
  ['from=', 'from'],
  ['from=yesterday', 'from'],
  ['from=2025-02-30T00:00:00Z', 'from'],
  ['from=2025-11-21T00:00:00+01:00', 'from'],
  ['from=1&from=2', 'from'],
  ['from=-15', 'from'],
  ['from=1.5', 'from'],
  [`from=${DIGITS}`, 'from'],
  [`from=-${DIGITS}h`, 'from'],
  ['to=15m', 'to'],
  ['from=2&to=1', 'from'],
  ['from=-1m&to=-2m', 'from'],
  ['min_duration_ms=-1', 'min_duration_ms'],
  ['min_duration_ms=1e3', 'min_duration_ms'],
  ['min_duration_ms=NaN', 'min_duration_ms'],
  ['min_duration_ms=0.0000001', 'min_duration_ms'],
  ['min_duration_ms=9223372036854.775808', 'min_duration_ms'],
  [`min_duration_ms=${DIGITS}`, 'min_duration_ms'],
  ['max_duration_ms=50us', 'max_duration_ms'],
  ['min_duration_ms=2&max_duration_ms=1', 'min_duration_ms'],
  ['pid=-1', 'pid'],
  ['pid=1.0', 'pid'],
  ['pid=4294967296', 'pid'],
  ['pid=0x10', 'pid'],
  ['pid=1&pid=1', 'pid'],
  ['comm=', 'comm'],
  ['failed=', 'failed'],
  ['failed=TRUE', 'failed'],
  ['failed=1', 'failed'],
  ['failed=constructor', 'failed'],
  ['order=up', 'order'],
  ['order=asc&order=asc', 'order'],
  ['limit=0', 'limit'],
  ['limit=10001', 'limit'],
  ['limit=-1', 'limit'],
  ['limit=ten', 'limit'],
  ['limit=1e3', 'limit'],
  ['limit=10&limit=10', 'limit'],
])('?%s is a 400 that names %s', async (query, parameter) => {
  const { status, headers, json } = await served.get(`/api/events?${query}`);
  expect({ status, type: headers['content-type'] }).toEqual({
    status: 400,
    type: 'application/problem+json; charset=utf-8',
  });
  expect(json).toMatchObject({ status: 400, code: 'invalid_parameter', type: 'urn:kreplay:error:invalid_parameter' });
  expect(json.errors.map((error: { parameter: string }) => error.parameter)).toContain(parameter);
  expect(json.detail).toContain(parameter);
});

test('all mistakes are reported together', async () => {
  const { json } = await served.get('/api/events?limit=0&colour=red&pid=x');
  expect(json.errors.map((error: { parameter: string }) => error.parameter).sort()).toEqual(['colour', 'limit', 'pid']);
});

test('an unknown event type is answered with the known ones', async () => {
  const { json } = await served.get('/api/events?event_type=sys_write,sys_read');
  expect(json.errors).toEqual([
    { parameter: 'event_type', message: '"sys_read" is not an event type; known are: sys_write, block_io, sys_sync' },
  ]);
});

test.each(['garbage', 'AAAA', '%00', 'AQ'.repeat(3000)])('cursor=%s is not a cursor', async (cursor) => {
  const { status, json } = await served.get(`/api/events?cursor=${cursor}`);
  expect([status, json.code, json.errors[0].parameter]).toEqual([400, 'invalid_cursor', 'cursor']);
});

test.each([
  '/api/events?comm=%',
  '/api/events?comm=%zz',
  '/api/events?comm=%ff',
  '/api/events/%ff',
  '/api/transactions/%',
])('%s cannot be decoded', async (path) => {
  const { status, json } = await served.get(path);
  expect([status, json.code]).toEqual([400, 'malformed_request']);
});

test('the parameter that cannot be decoded is named', async () => {
  const { json } = await served.get('/api/events?limit=1&comm=%ff');
  expect(json.errors).toEqual([{ parameter: 'comm', message: 'is not percent-encoded UTF-8' }]);
});

test.each(['/api/events/', '/api/transactions/', '/api/replay/sessions/', '/api/stats/', '/api/heatmap/'])(
  '%s, with an empty name, is not the list',
  async (path) => {
    for (const method of ['GET', 'POST', 'DELETE']) {
      const { status, json } = await served.get(path, { method });
      expect([method, status, json.code]).toEqual([method, 404, 'not_found']);
      expect(json.detail).toContain(path);
    }
  },
);

test('other endpoints take no parameters', async () => {
  for (const path of [
    '/',
    '/docs',
    '/openapi.json',
    '/api/services',
    '/api/nodes',
    '/api/stats',
    '/api/heatmap',
    '/api/differences',
    '/api/event-types',
    '/api/transactions/tx',
    '/api/events/x',
  ]) {
    const { status, json } = await served.get(`${path}?limit=1`);
    expect([path, status, json.errors?.[0].parameter]).toEqual([path, 400, 'limit']);
  }
});
