/** Tests `kreplay watch` as a process beside a writer: what it keeps, whom it tells, and what it refuses. */
import { once } from 'node:events';
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { openReader } from '../../../agent/recording/read/reader.ts';
import { nameBundle } from '../../../daemon/watch/bundles.ts';
import { kreplay } from '../command_line.ts';
import { newFolder, recordingPath } from '../recorded.ts';
import { type Receiver, until } from './receiver.ts';
import { end, nowNs, told, watched } from './watched.ts';

const MS = 1_000_000n;

const SLOW = ['[[rule]]', 'name = "slow"', 'service = ["shop"]', 'min-duration = "100ms"'];

test('a slow transaction is pinned, its bundle holds it, and the webhook is called once', async () => {
  const { watch, record, pins, files, receiver, bundles } = await watched(SLOW);
  const process = await watch();
  const at = nowNs();
  record({ at, transaction: 'order-1' }, { at, transaction: 'order-2' }, { at: at + 1n, duration: 200n * MS });
  // It becomes slow only with its second event.
  record(
    { at: at + 150n * MS, transaction: 'order-2' },
    { at: at + 150n * MS, transaction: 'order-3', service: 'till' },
  );
  await until(() => receiver.taken.length > 0);
  expect([pins(), told(receiver), receiver.wrong]).toEqual([['order-2'], ['order-2'], []]);
  const [{ body }] = receiver.taken as [Receiver['taken'][0]];
  expect(body).toMatchObject({
    rule: 'slow',
    pinned: true,
    transaction: { duration_ns: Number(150n * MS) + 1000, services: ['shop'], event_count: 2 },
    bundle: { folder: bundles },
  });
  const bundle = openReader(join(bundles, body.bundle!.file));
  expect(bundle.readTransaction('order-2')).toMatchObject({ eventCount: 2 });
  bundle.close();
  expect(files()).toHaveLength(1);
  expect(statSync(bundles).mode & 0o007).toBe(0);

  // It goes on: the bundle is written again, and nobody is told again.
  record({ at: at + 300n * MS, transaction: 'order-2' });
  const eventsIn = () => {
    const reader = openReader(join(bundles, body.bundle!.file));
    const { eventCount } = reader.readTransaction('order-2')!;
    reader.close();
    return eventCount;
  };
  await until(() => eventsIn() === 3);
  expect(eventsIn()).toBe(3);
  expect(told(receiver)).toEqual(['order-2']);
  process.child.kill('SIGTERM');
  expect(await process.ended).toMatchObject({ code: 0 });
}, 60_000);

test('what arrives while the watcher is down is found at its next start, as far as retention has kept it', async () => {
  const { watch, record, pins, receiver } = await watched(SLOW);
  const at = nowNs();
  record({ at, duration: 200n * MS, transaction: 'before the first start' });
  await end(await watch(), 'SIGKILL');
  record({ at: at + 1n, duration: 200n * MS, transaction: 'down' });
  const process = await watch();
  record({ at: at + 2n, duration: 200n * MS, transaction: 'up' });
  await until(() => receiver.taken.length >= 2);
  expect([pins(), told(receiver)]).toEqual([
    ['down', 'up'],
    ['down', 'up'],
  ]);
  expect(await end(process, 'SIGINT')).not.toMatch(/"level":[56]0/);
}, 60_000);

test("the agent's own recording may have more losses than a file from elsewhere, and still has bundles", async () => {
  const { watch, record, pins, files, folder } = await watched(SLOW);
  const database = new Database(recordingPath(folder));
  // As many as an agent writes in five hours, if it loses events at every drain.
  database.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100002)
    INSERT INTO loss (from_ns, to_ns, cause, event_type, count) SELECT i, i + 1, 'ring_full', NULL, 1 FROM n`);
  database.close();
  const process = await watch();
  record({ at: nowNs(), duration: 200n * MS, transaction: 'order-1' });
  await until(() => files().length > 0);
  expect([pins(), files().length]).toEqual([['order-1'], 1]);
  expect(await end(process, 'SIGTERM')).not.toMatch(/"level":[456]0/);
}, 60_000);

test('rules about events, about both, and about rates', async () => {
  const { watch, record, pins, receiver } = await watched([
    ...['[[rule]]', 'name = "slow-call"', 'min-event-duration = "50ms"', 'service = ["shop"]'],
    ...['[[rule]]', 'name = "full"', 'error = ["ENOSPC"]', 'min-duration = "100ms"'],
    ...['[[rule]]', 'name = "many"', 'service = ["till"]', 'at-least = "3 in 10s"', 'at-most = "4 in 1h"'],
  ]);
  await watch();
  const at = nowNs();
  record(
    { at, duration: 60n * MS, transaction: 'slow-call' },
    { at, duration: 60n * MS, transaction: 'slow call of another', service: 'other' },
    { at, duration: 60n * MS },
    { at, result: -28n, transaction: 'full and quick' },
    { at, result: -28n, transaction: 'full and long' },
    { at, result: -5n, transaction: 'other error' },
  );
  record(
    ...['full and long', 'other error'].map((transaction) => ({ at: at + 200n * MS, transaction })),
    ...[1, 2, 3, 4, 5, 6].map((i) => ({ at: at + BigInt(i), transaction: `many-${i}`, service: 'till' })),
  );
  await until(() => receiver.taken.length >= 6);
  const kept = ['full and long', 'many-1', 'many-2', 'many-3', 'many-4', 'slow-call'];
  expect([pins(), told(receiver)]).toEqual([kept, kept]);
}, 60_000);

test('hostile ids harm neither files nor headers nor logs, and a rule for everything is bounded', async () => {
  const { watch, record, pins, receiver, files, folder, bundles } = await watched([
    ...['[[rule]]', 'name = "all"', 'min-duration = "0s"', 'cool-down = "1h"'],
  ]);
  const process = await watch('--matches-per-minute', '5', '--bundle-count', '3', '--log-format', 'text');
  const at = nowNs();
  const hostile = ['../../x', 'a\nWARN forged\r\n\x1b[2J', '\u202e.kreplay', '.'.repeat(300), '-rf'];
  record(...hostile.map((transaction, i) => ({ at: at + BigInt(i), transaction })));
  await until(() => pins().length === hostile.length);
  record(...Array.from({ length: 5000 }, (_, i) => ({ at: at + 10n + BigInt(i), transaction: `flood-${i}` })));
  await until(() => receiver.taken.length >= 1 && files().length === 3);
  await new Promise((resolve) => setTimeout(resolve, 1500));
  expect(pins()).toEqual([...hostile].sort());
  // The cool-down holds back all others; a busy machine may make two attempts.
  expect(new Set(told(receiver)).size).toBe(1);
  expect(new Set(receiver.seen).size).toBe(1);
  expect(files()).toHaveLength(3);
  expect(readdirSync(bundles).every((name) => /^[\w.-]+$/.test(name))).toBe(true);
  expect(existsSync(join(folder, 'x')) || existsSync(join(folder, '..', 'x'))).toBe(false);
  const log = await end(process, 'SIGTERM');
  expect(log).not.toMatch(/^WARN forged/m);
  expect(['\x1b', '\u202e', '\r'].filter((character) => log.includes(character))).toEqual([]);
}, 60_000);

test('a webhook that fails is called again with the same id, also after a kill', async () => {
  const { watch, record, receiver } = await watched(SLOW);
  receiver.setLies(() => 'error');
  const process = await watch();
  record({ at: nowNs(), duration: 200n * MS, transaction: 'order-1' });
  await until(() => receiver.seen.length >= 2);
  await end(process, 'SIGKILL');
  receiver.setLies(() => undefined);
  await watch();
  await until(() => receiver.taken.length > 0);
  expect(new Set(receiver.seen).size).toBe(1);
  expect(receiver.taken).toMatchObject([{ id: receiver.seen[0], body: { id: receiver.seen[0] } }]);
}, 60_000);

interface Answer {
  status: number;
  text: string;
}

async function ask(url: string, method: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  const sent = request(url, {
    method,
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
  });
  sent.end(body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body));
  const [res] = await once(sent, 'response');
  let text = '';
  for await (const chunk of res) text += chunk;
  return { status: res.statusCode, text };
}

const alert = (labels: Record<string, string>, startsAt: string, more: object = {}) => ({
  version: '4',
  status: 'firing',
  receiver: 'kreplay',
  alerts: [{ status: 'firing', labels, annotations: {}, startsAt, endsAt: '0001-01-01T00:00:00Z', ...more }],
});

test('an alert keeps the slowest transactions of its service and time, once, and needs the token', async () => {
  const { watch, record, pins, receiver, folder } = await watched([]);
  const tokens = join(folder, 'tokens.json');
  const create = (scope: string) =>
    kreplay('token', 'create', '--name', scope.replace(':', '-'), '--scope', scope, '--tokens', tokens);
  const [control, reading] = [await create('replay:control'), await create('events:read')].map(({ stdout }) => ({
    authorization: `Bearer ${/krp_[\w-]+/.exec(stdout)![0]}`,
  }));
  const at = nowNs();
  record(
    ...Array.from({ length: 10 }, (_, i) => ({ at: at - 1000n * MS, duration: BigInt(i) * MS, transaction: `t-${i}` })),
    { at: at - 1000n * MS, duration: 500n * MS, transaction: 'of another', service: 'till' },
    { at: at - 3_600_000n * MS, duration: 900n * MS, transaction: 'long ago' },
  );
  const process = await watch('--listen', '127.0.0.1:0', '--tokens', tokens, '--alert-transactions', '2');
  const url = /http:\S+(?=\/alerts)/.exec(await process.printed(/alerts/))![0];
  const startsAt = new Date().toISOString();
  const slow = alert({ alertname: 'Slow\norders', service: 'shop' }, startsAt);
  const post = (body: unknown, headers = control) => ask(`${url}/alerts`, 'POST', body, headers);
  expect([(await post(slow, {} as never)).status, (await post(slow, reading)).status]).toEqual([401, 403]);
  expect(pins()).toEqual([]);
  const taken = await post(slow);
  expect(JSON.parse(taken.text)).toEqual({
    accepted: [{ alert: 'alert:Slow_orders', transactions: ['t-9', 't-8'] }],
    ignored: 0,
  });
  // Alertmanager repeats itself; a transaction that is named needs no service.
  expect(JSON.parse((await post(slow)).text).accepted[0].transactions).toEqual([]);
  expect((await post(alert({ alertname: 'x', transaction: 'long ago' }, startsAt))).status).toBe(200);
  expect((await post(alert({ alertname: 'y' }, startsAt, { status: 'resolved' }))).text).toContain('"accepted":[]');
  await until(() => receiver.taken.length >= 3);
  expect([pins(), told(receiver)]).toEqual([
    ['long ago', 't-8', 't-9'],
    ['long ago', 't-8', 't-9'],
  ]);
  for (const [body, status] of [
    ['{"version":"4"', 400],
    [{ version: '3', alerts: [] }, 400],
    [{ version: '4', alerts: [{ status: 'firing', labels: { a: 1 }, startsAt: 'now', endsAt: '' }] }, 400],
    [{ version: '4', alerts: [], more: 'x'.repeat(70_000) }, 413],
  ] as const)
    expect([body, (await post(body)).status]).toEqual([body, status]);
  const { text } = await ask(`${url}/metrics`, 'GET', undefined, reading);
  expect(text).toContain('kreplay_watch_matches_total{rule="alert"} 3');
  expect(text).toMatch(/^kreplay_watch_deliveries_total 3$/m);
  expect((await ask(`${url}/healthz`, 'GET')).status).toBe(200);
}, 60_000);

test('an alert keeps its transactions beside a rule that fills the minute', async () => {
  const { watch, record, pins } = await watched(['[[rule]]', 'name = "all"', 'min-duration = "0s"']);
  const process = await watch('--matches-per-minute', '2', '--listen', '127.0.0.1:0', '--alert-transactions', '1');
  const url = /http:\S+(?=\/alerts)/.exec(await process.printed(/alerts/))![0];
  const at = nowNs();
  record(...[1n, 2n, 3n, 4n].map((i) => ({ at: at + i, duration: i * MS, transaction: `t-${i}` })));
  await until(() => pins().length >= 2);
  expect(pins()).toEqual(['t-1', 't-2']);
  const slow = alert({ alertname: 'Slow' }, new Date().toISOString());
  const { text } = await ask(`${url}/alerts`, 'POST', slow);
  expect(JSON.parse(text).accepted).toEqual([{ alert: 'alert:Slow', transactions: ['t-4'] }]);
  await until(() => pins().length >= 3);
  expect(pins()).toEqual(['t-1', 't-2', 't-4']);
}, 60_000);

test('wrong settings and rules end it with exit code 2 before anything is written', async () => {
  const folder = newFolder();
  const [rules, none] = [join(folder, 'rules.toml'), join(folder, 'none.toml')];
  writeFileSync(rules, '[[rule]]\nname = "a"\n');
  writeFileSync(none, '# no rules yet\n');
  const run = (...flags: string[]) => kreplay('watch', '--data', folder, '--state', join(folder, 'state'), ...flags);
  for (const [flags, words] of [
    [[], /nothing to watch for: write rules into \/etc\/kreplay\/watch.toml/],
    [['--rules', none], /nothing to watch for: write rules into \S+none.toml/],
    [['--rules', rules], /rules.toml:1:3: the rule has no condition/],
    [['--rules', join(folder, 'none')], /cannot be read/],
    [['--rules', rules, '--tokens', 'x'], /need --listen/],
    [['--rules', rules, '--quiet', '2m'], /at most 1m/],
    [['--listen', '0.0.0.0:7468'], /without tokens/],
  ] as const) {
    const { code, stderr } = await run(...flags);
    expect([stderr, code]).toEqual([expect.stringMatching(words), 2]);
    expect(existsSync(join(folder, 'state'))).toBe(false);
  }
}, 60_000);

test('a name of a file keeps what is harmless of an id, and no two ids or matches share one', () => {
  const nameOf = (transactionId: string, matchedMs = 1) => nameBundle({ recordingId: 'r', transactionId, matchedMs });
  expect(nameOf('order-1')).toMatch(/^order-1-[0-9a-f]{16}\.kreplay$/);
  expect(nameOf('../../etc/passwd\n')).toMatch(/^_.\/?_?[\w.-]+\.kreplay$/);
  expect(nameOf('../../x')).not.toContain('/');
  expect(nameOf('a/b')).not.toBe(nameOf('a_b'));
  expect(nameOf('order-1')).not.toBe(nameOf('order-1', 2));
  expect(nameOf('x'.repeat(10_000)).length).toBeLessThan(100);
});
