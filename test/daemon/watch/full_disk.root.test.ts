/** Tests a watcher on full disks: words and another attempt, and the pin is set meanwhile. */
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newSmallDisk } from '../export/small_disk.ts';
import { until } from './receiver.ts';
import { end, nowNs, told, watched } from './watched.ts';

const MS = 1_000_000n;
/** Orders of which the disk has room for fewer bundles. */
const ORDERS = 120;
const RULES = ['[[rule]]', 'name = "slow"', 'min-duration = "100ms"'];

/** Fills a disk; the returned function frees it. */
function fill(disk: string): () => void {
  const file = join(disk, 'filler');
  writeFileSync(file, '');
  for (let bytes = 1 << 20; bytes >= 1; bytes >>= 1) {
    try {
      for (;;) writeFileSync(file, Buffer.alloc(bytes), { flag: 'a' });
    } catch {
      // Smaller pieces may still fit.
    }
  }
  return () => rmSync(file);
}

test('a full disk below the bundles: the pin is set, the webhook gets the reason, and the bundle comes later', async () => {
  const disk = newSmallDisk(512);
  const { watch, record, pins, receiver, files } = await watched(RULES, { bundles: join(disk, 'bundles') });
  const free = fill(disk);
  const process = await watch();
  record({ at: nowNs(), duration: 200n * MS, transaction: 'order-1' });
  await until(() => receiver.taken.length > 0);
  expect([pins(), told(receiver), files()]).toEqual([['order-1'], ['order-1'], []]);
  expect(receiver.taken[0]!.body).toMatchObject({
    pinned: true,
    bundle: null,
    bundle_problem: expect.stringContaining('no space is left on the device'),
  });
  free();
  await until(() => files().length > 0);
  expect(files()).toHaveLength(1);
  // The delivery was taken: it is not made again.
  expect(told(receiver)).toEqual(['order-1']);
  const log = await end(process, 'SIGTERM');
  expect(log.match(/a bundle is not written, and is tried again/g)).toHaveLength(1);
}, 60_000);

test('a full disk below the state: the pin is set, and all the rest follows once there is room', async () => {
  const disk = newSmallDisk(2048);
  const { watch, record, pins, receiver, files, folder } = await watched(RULES, {
    state: join(disk, 'watch'),
    bundles: join(disk, 'bundles'),
  });
  const limits = ['--matches-per-minute', '1000', '--bundle-bytes', '1MiB'];
  const process = await watch(...limits);
  const free = fill(disk);
  for (let i = 0; i < ORDERS; i++) record({ at: nowNs(), duration: 200n * MS, transaction: `order-${i}` });
  await until(() => pins().length > 0);
  expect(pins().length).toBeGreaterThan(0);
  await process.logged(/a step failed, and is tried again/);
  free();
  await end(process, 'SIGKILL');
  const again = await watch(...limits);
  // No call waits for a pin, nor a pin for a call.
  // A delivery that the killed watcher had made is made again.
  const toldOrders = () => new Set(told(receiver)).size;
  await until(() => toldOrders() >= ORDERS && pins().length >= ORDERS, 60_000);
  expect(toldOrders()).toBe(ORDERS);
  expect(files().length).toBeLessThan(ORDERS / 2);
  expect(existsSync(join(folder, 'watch'))).toBe(false);
  expect(await end(again, 'SIGTERM')).not.toMatch(/"level":[56]0| {4}at /);
}, 120_000);
