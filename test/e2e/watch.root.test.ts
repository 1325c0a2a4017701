/**
 * `kreplay watch` beside a real agent: a program takes orders and notes which were slow, the watcher is killed at random
 * instants, the receiver of its webhook lies, and retention removes what nobody keeps.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openReader } from '../../agent/recording/read/reader.ts';
import { LIES, type Receiver, SECRET, startReceiver, until } from '../daemon/watch/receiver.ts';
import { REPEATS, times } from '../repeats.ts';
import { endAll, kreplay, start, temporaryFolder } from './kreplay.ts';

const KILLS = times(5);
const ALIVE_MS_MAX = 1500;
const SLOW_S = 0.2;
/** Longer than the watcher is ever down, with what its start takes. */
const RETAIN_AGE = '20s';
/** Writes of `orders.py` before its first order. */
const EARLY_WRITES = 20_000;

const folder = temporaryFolder();
const data = join(folder.path, 'data');
const state = join(folder.path, 'watch');
const log = join(folder.path, 'orders.log');
let receiver: Receiver;
let orders: ChildProcess | undefined;
afterAll(() => {
  endAll();
  orders?.kill('SIGKILL');
  receiver.close();
  folder.remove();
});

function ordersOf(kind: string): string[] {
  const lines = readFileSync(log, 'utf8').trim().split('\n');
  return lines.filter((line) => line.endsWith(` ${kind}`)).map((line) => line.split(' ')[0]!);
}

function watchFlags(): string[] {
  const rules = join(folder.path, 'rules.toml');
  const secret = join(folder.path, 'secret');
  writeFileSync(secret, SECRET, { mode: 0o600 });
  writeFileSync(
    rules,
    [
      ...['[[rule]]', 'name = "slow"', 'service = ["shop"]', `min-duration = "${SLOW_S * 1000}ms"`],
      ...['[webhook]', `url = "${receiver.url}"`, `secret-file = "${secret}"`, 'timeout = "300ms"'],
    ].join('\n'),
  );
  const places = ['--data', data, '--state', state, '--rules', rules];
  return ['watch', ...places, '--quiet', '300ms', '--before', '0s', '--matches-per-minute', '10000'];
}

test(
  `${KILLS} kills of the watcher and a receiver that lies: each slow order is pinned, exported and delivered`,
  async () => {
    receiver = await startReceiver();
    mkdirSync(data);
    const agent = start(['agent', '--data', data, '--retain-age', RETAIN_AGE, '--comm', 'python3', 'dd']);
    await agent.says('recording to');
    const flags = watchFlags();
    const first = start(flags);
    await first.says('watching');
    first.process.kill('SIGKILL');
    await first.ended;
    const script = join(import.meta.dirname, 'orders.py');
    orders = spawn('python3', [script, folder.path, log, String(SLOW_S)], { stdio: 'inherit' });
    const words = Object.keys(LIES);
    receiver.setLies(() => (Math.random() < 0.6 ? words[Math.floor(Math.random() * words.length)] : undefined));

    let killed = 0;
    for (; killed < KILLS; killed++) {
      const watcher = start(flags);
      await sleep(Math.random() * ALIVE_MS_MAX);
      watcher.process.kill('SIGKILL');
      await watcher.ended;
      expect(watcher.complaints()).not.toMatch(/"level":[56]0| {4}at /);
      // It is down for a moment.
      await sleep(Math.random() * 300);
    }
    const last = start(flags);
    await last.says('watching');
    await until(() => ordersOf('slow').length >= 10, 20_000);
    writeFileSync(join(folder.path, 'end'), '');
    await once(orders, 'exit');
    const slow = ordersOf('slow').sort();
    await until(() => pinsOf().length >= slow.length);
    receiver.setLies(() => undefined);

    const told = () => new Set(receiver.taken.map(({ body }) => body.transaction.transaction_id));
    await until(() => slow.every((id) => told().has(id)), 60_000);
    last.process.kill('SIGTERM');
    expect((await last.ended).status).toBe(0);
    await until(() => {
      // Retention removes sealed segments only.
      execFileSync('dd', ['if=/dev/zero', 'of=/dev/null', 'bs=1', 'count=10000', 'status=none']);
      return countRemoved() > 0;
    }, 60_000);
    agent.process.kill('SIGINT');
    await agent.ended;

    // The log of the program is the witness. An order that was slow by chance is in neither list.
    const quick = new Set(ordersOf('quick'));
    const pins = pinsOf();
    expect(slow.filter((id) => !pins.includes(id))).toEqual([]);
    expect(pins.filter((id) => quick.has(id))).toEqual([]);
    expect(new Set(pins).size).toBe(pins.length);
    // One id for each order, in every attempt.
    const ids = Map.groupBy(receiver.taken, ({ body }) => body.transaction.transaction_id);
    expect([...ids].filter(([, taken]) => new Set(taken.map(({ id }) => id)).size > 1)).toEqual([]);
    expect(slow.filter((id) => !ids.has(id))).toEqual([]);
    expect([...ids.keys()].filter((id) => quick.has(id))).toEqual([]);
    expect(receiver.wrong).toEqual([]);

    const reader = openReader(join(data, 'recording.kreplay'));
    for (const id of slow) {
      // Retention kept the order, and its bundle has it, too.
      expect([id, reader.readTransaction(id)?.eventCount]).toEqual([id, expect.any(Number)]);
      const { bundle } = ids.get(id)!.at(-1)!.body;
      expect([id, bundle && existsSync(join(bundle.folder, bundle.file))]).toEqual([id, true]);
    }
    reader.close();
    const removed = countRemoved();
    expect(removed).toBeGreaterThan(0);
    if (REPEATS === 1) return;
    process.stderr.write(
      `${killed} kills, ${slow.length} slow orders, ${quick.size} quick ones; retention removed ${removed} events, ` +
        `${receiver.seen.length} attempts, ${receiver.taken.length} taken, lies: ${[...receiver.lied].join(', ')}\n`,
    );
  },
  120_000 + KILLS * 10_000,
);

/** Returns how many of the first events, which belong to no slow order, retention has removed. */
function countRemoved(): number {
  const reader = openReader(join(data, 'recording.kreplay'));
  const { count } = reader.countRemoved(0, EARLY_WRITES);
  reader.close();
  return count;
}

function pinsOf(): string[] {
  const reader = openReader(join(data, 'recording.kreplay'));
  const ids = reader.pins().map(({ transactionId }) => transactionId);
  reader.close();
  return ids;
}

test('the built program names its rules and options', () => {
  const { status, stdout } = kreplay(['watch', '--help']);
  expect([status, stdout]).toEqual([0, expect.stringContaining('min-event-duration')]);
});
