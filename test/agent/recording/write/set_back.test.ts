// Tests a clock that is set while no agent runs: the gap is reported in the old clock's time and in the new one's.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { openWriter } from '../../../../agent/recording/write/writer.ts';
import { blockOf, temporaryFolder, testWriter } from '../fixture.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const START = 1_700_000_000_000_000_000n;
const HOUR_NS = 3_600_000_000_000n;
const DOWN_MS = 50;
/** Bounds on how long no agent ran. */
const downNs = { min: BigInt(DOWN_MS) * 1_000_000n, max: 10_000_000_000n };

let recordings = 0;

/** Gaps reported between a writer and one that begins `DOWN_MS` later, when the clock shows `nowNs`. */
async function gapsAfter(nowNs: bigint, nextBootId = 'boot') {
  const path = join(folder.path, `${recordings++}.kreplay`);
  const open = (now: bigint, bootId: string) =>
    openWriter({ path, node: 'n', machineId: 'm', bootId, nowNs: () => now }).close();
  open(START, 'boot');
  await sleep(DOWN_MS);
  open(nowNs, nextBootId);
  const reader = openReader(path);
  const losses = reader.losses();
  reader.close();
  expect(new Set(losses.map(({ cause }) => cause))).toEqual(new Set(['agent_stopped']));
  return losses;
}

test('not set, or set forward: the difference between the two times', async () => {
  for (const nowNs of [START + downNs.max, START + HOUR_NS])
    expect(await gapsAfter(nowNs)).toEqual([expect.objectContaining({ fromNs: START, toNs: nowNs })]);
});

test('set back: the actual length, by either clock', async () => {
  const nowNs = START - 2n * HOUR_NS;
  const [asItWas, asItIs] = (await gapsAfter(nowNs)).toSorted((a, b) => Number(b.fromNs - a.fromNs));
  expect([asItWas!.fromNs, asItIs!.toNs]).toEqual([START, nowNs]);
  const lasted = [asItWas!.toNs - START, nowNs - asItIs!.fromNs];
  for (const ns of lasted) expect([ns >= downNs.min, ns < downNs.max]).toEqual([true, true]);
});

test('set back by less than the length: what either clock shows', async () => {
  const nowNs = START + 1_000_000n;
  const [gap, ...more] = await gapsAfter(nowNs);
  expect(more).toEqual([]);
  expect([gap!.fromNs <= nowNs - downNs.min, gap!.toNs >= START + downNs.min]).toEqual([true, true]);
});

test('a node that has rebooted meanwhile: the length is unknown', async () => {
  const ahead = START + HOUR_NS;
  expect(await gapsAfter(ahead, 'next boot')).toEqual([expect.objectContaining({ fromNs: START, toNs: ahead })]);
  const back = await gapsAfter(START - HOUR_NS, 'next boot');
  expect(back).toEqual([expect.objectContaining({ fromNs: START, toNs: START })]);
});

test('set back while a writer works: what it has written in parts is sealed', () => {
  const path = join(folder.path, `${recordings++}.kreplay`);
  const clock = { nowNs: START };
  const writer = testWriter(path, clock);
  const states = () => {
    const database = new Database(path, { readonly: true });
    const sealed = database.prepare('SELECT sealed FROM segment ORDER BY first_number').pluck().all();
    database.close();
    return sealed;
  };
  const write = (at: bigint) => {
    writer.append(blockOf([{ timestamp_ns: at, pid: 1 }]));
    writer.flush();
  };
  write(START);
  expect(states()).toEqual([0]);
  clock.nowNs -= HOUR_NS;
  write(START + 1n);
  expect(states()).toEqual([1]);
  writer.close();
});

const MILLISECOND_NS = 1_000_000n;

test('a writer that takes long to open its recording reports no gap in time that was recorded', () => {
  const path = join(folder.path, `${recordings++}.kreplay`);
  const wallNs = () => BigInt(Date.now()) * 1_000_000n;
  const open = (nowNs: () => bigint) => openWriter({ path, node: 'n', machineId: 'm', bootId: 'boot', nowNs }).close();
  let beganNs = 0n;
  open(() => (beganNs = wallNs()));
  const slow = new Int32Array(new SharedArrayBuffer(4));
  open(() => {
    const nowNs = wallNs();
    Atomics.wait(slow, 0, 0, 300);
    return nowNs;
  });
  const reader = openReader(path);
  const [gap, ...more] = reader.losses();
  reader.close();
  expect(more).toEqual([]);
  // The monotonic clock has the digits that Date.now() cuts off.
  expect(gap!.fromNs).toBeGreaterThan(beganNs - MILLISECOND_NS);
});
