/** Tests a fleet's daemon whose server is broken or hostile: each answer is 503 and says why, and memory stays bounded. */
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { formatEventId } from '../../../../daemon/base/event_id.ts';
import { BEHAVIOURS, type BehaviourName, closeHostile, type Hostile, hostile } from '../../../clickhouse/hostile.ts';
import { freePort } from '../../../free_port.ts';
import { type Running, start } from '../../command_line.ts';

const RSS_MB_MAX = 350;

let server: Hostile;
let daemon: Running;
let port: number;

beforeAll(async () => {
  server = await hostile('speaks no HTTP', { opens: true });
  port = await freePort();
  daemon = start('daemon', '--fleet-url', server.url, '--listen', `127.0.0.1:${port}`, '--no-state');
  await daemon.printed(/serving the fleet/);
});
afterAll(async () => {
  daemon.child.kill('SIGTERM');
  await daemon.ended;
  closeHostile();
});

interface Answer {
  status: number;
  text: string;
}

function ask(path: string, { method = 'GET', accept = '*/*', body = '' } = {}): Promise<Answer> {
  const headers = { accept, ...(body && { 'content-type': 'application/json' }) };
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, method, headers, agent: false }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part) => {
        text += part;
      });
      response.on('end', () => resolve({ status: response.statusCode!, text })).on('error', reject);
    });
    sent.on('error', reject).end(body);
  });
}

const ID = formatEventId('0123456789abcdef', 7n);
const QUESTIONS: readonly [path: string, more?: Parameters<typeof ask>[1]][] = [
  ['/api/events?limit=10'],
  ['/api/events?limit=10&order=desc&node=a'],
  ['/api/events?sort=slowest&limit=10'],
  ['/api/events?transaction_id=order-1'],
  ['/api/events', { accept: 'application/x-ndjson' }],
  ['/api/events', { accept: 'text/event-stream' }],
  [`/api/events/${ID}`],
  ['/api/stats'],
  ['/api/stats?group_by=service'],
  ['/api/transactions'],
  ['/api/transactions?sort=slowest&service=shop'],
  ['/api/transactions/order-1'],
  ['/api/transactions/order-1/summary'],
  ['/api/transactions/order-1/explain'],
  ['/api/transactions/order-1/pin', { method: 'POST' }],
  ['/api/transactions/order-1/pin', { method: 'DELETE' }],
  ['/api/pins'],
  ['/api/heatmap'],
  ['/api/heatmap?of=transactions'],
  ['/api/services'],
  ['/api/nodes'],
  ['/api/replay/sessions', { method: 'POST', body: '{"transaction_id":"order-1"}' }],
  ['/readyz'],
];

function peakMegabytes(): number {
  const [, kilobytes] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${daemon.child.pid}/status`, 'utf8'))!;
  return Number(kilobytes) / 1024;
}

test.each(Object.keys(BEHAVIOURS) as BehaviourName[])('a server that %s is no failure of the daemon', async (name) => {
  server.behaviour = name;
  const answers = await Promise.all(
    QUESTIONS.map(async ([path, more]) => {
      const { status, text } = await ask(path, more);
      return `${path} ${status} ${status === 503 ? '' : text.slice(0, 300)}`;
    }),
  );
  expect(answers).toEqual(QUESTIONS.map(([path]) => `${path} 503 `));
  expect((await ask('/healthz')).status).toBe(200);
  // Metrics leave out what the server does not say.
  expect((await ask('/metrics')).status).toBe(200);
  expect(peakMegabytes()).toBeLessThan(RSS_MB_MAX);
});

describe('a server that answers well until it is asked for', () => {
  const EVENTS = /^SELECT `timestamp_ns`/;
  const asked: readonly [what: string, path: string, when: RegExp, without?: RegExp][] = [
    ['a page of events', '/api/events?limit=10000', EVENTS],
    ['sums of events', '/api/stats?group_by=comm', EVENTS],
    ['a map of events', '/api/heatmap?of=events&from=0&to=1000000000', EVENTS],
    ['the slowest events', '/api/events?sort=slowest&limit=10', EVENTS],
    ['a page of transactions', '/api/transactions?limit=10', /whole_id/],
    // As many as a server has are counted.
    ['a map of transactions', '/api/heatmap?of=transactions&from=0&to=1000000000', / AS hash/, /rows without end/],
    ['sums by service', '/api/stats?group_by=service', /FROM `stat`/],
    ['names of services', '/api/services', /SELECT DISTINCT text/],
    ['an event', `/api/events/${ID}`, /FROM `segment`/],
  ];

  test.each(asked)('%s is no failure of the daemon', async (_, path, when, without = /$^/) => {
    server.when = when;
    const names = (Object.keys(BEHAVIOURS) as BehaviourName[]).filter((name) => !without.test(name));
    for (const name of names) {
      server.behaviour = name;
      const { status, text } = await ask(path);
      expect(`${name}: ${status} ${status === 503 ? '' : text.slice(0, 300)}`).toBe(`${name}: 503 `);
    }
    expect(peakMegabytes()).toBeLessThan(RSS_MB_MAX);
  });
});
