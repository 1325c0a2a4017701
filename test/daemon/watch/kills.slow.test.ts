/** Kills a watcher at random instants while orders are recorded and the receiver lies: each slow order is kept once. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { times } from '../../repeats.ts';
import { LIES, until } from './receiver.ts';
import { end, nowNs, told, watched } from './watched.ts';

const MS = 1_000_000n;
const KILLS = times(5);
/** A start takes some 400 ms, or more on a busy machine: kills come before, within and after it. */
const ALIVE_MS_MAX = 1500;
const EVERY_MS = 20;
const SLOW_SHARE = 0.05;

test(
  `${KILLS} kills at random instants`,
  async () => {
    const rules = ['[[rule]]', 'name = "slow"', 'service = ["shop"]', 'min-duration = "100ms"'];
    const { record, watch, begin, pins, receiver, bundles } = await watched(rules);
    const limits = ['--matches-per-minute', '10000'];
    await end(await watch(...limits), 'SIGKILL');
    const words = Object.keys(LIES);
    receiver.setLies(() => (Math.random() < 0.6 ? words[Math.floor(Math.random() * words.length)] : undefined));

    const slow: string[] = [];
    let number = 0;
    const orders = setInterval(() => {
      const transaction = `order-${++number}`;
      const at = nowNs();
      const isSlow = Math.random() < SLOW_SHARE;
      if (isSlow) slow.push(transaction);
      record({ at, transaction }, { at: at + (isSlow ? 150n : 5n) * MS, transaction });
    }, EVERY_MS);
    for (let killed = 0; killed < KILLS; killed++) {
      const process = begin(...limits);
      await sleep(Math.random() * ALIVE_MS_MAX);
      expect(await end(process, 'SIGKILL')).not.toMatch(/"level":[56]0| {4}at /);
    }
    const last = await watch(...limits);
    await until(() => slow.length >= 10);
    clearInterval(orders);
    await sleep(1000);
    receiver.setLies(() => undefined);
    await until(
      () => slow.every((id) => receiver.taken.some(({ body }) => body.transaction.transaction_id === id)),
      60_000,
    );

    expect(pins()).toEqual(slow.toSorted());
    expect([...new Set(told(receiver))]).toEqual(slow.toSorted());
    // A delivery may come again, with the same id.
    const ids = new Map(receiver.taken.map(({ id, body }) => [id, body.transaction.transaction_id]));
    expect([...ids.values()].sort()).toEqual(slow.toSorted());
    expect(new Set(receiver.seen)).toEqual(new Set(ids.keys()));
    expect(receiver.wrong).toEqual([]);
    for (const { body } of receiver.taken) {
      expect([body.pinned, body.bundle_problem]).toEqual([true, null]);
      expect(existsSync(join(bundles, body.bundle!.file))).toBe(true);
    }
    expect(await end(last, 'SIGTERM')).not.toMatch(/"level":[56]0| {4}at /);
  },
  120_000 + KILLS * 10_000,
);
