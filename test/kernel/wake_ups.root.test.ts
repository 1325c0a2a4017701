/** Tests what wakes a sleeping agent: the first record when the rings are empty, and else only a ring that fills up. */
import { copyFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findCgroups } from '../../agent/attribution/cgroups.ts';
import { openProbes, type Probes } from '../../agent/capture/probes.ts';
import { filterSettings } from '../../agent/filter/settings.ts';
import { temporaryFolder } from '../agent/recording/fixture.ts';
import { bash } from './programs.ts';

const folder = temporaryFolder();

const RING_BYTES = 1 << 20;
/** The name of dd here: no other program's events are recorded. */
const NAME = `wakes${process.pid}`;
const PROGRAM = join(folder.path, NAME);
/** Longer than a test may take: a sleep that ends before was ended by a wake-up. */
const FOREVER_MS = 3_600_000;

let probes: Probes;

beforeAll(() => {
  copyFileSync(realpathSync('/usr/bin/dd'), PROGRAM);
  const settings = filterSettings({ comms: [NAME] });
  const { hierarchy: cgroupHierarchy } = findCgroups();
  probes = openProbes({ agentPid: process.pid, cgroupHierarchy, settings, eventBytes: RING_BYTES });
});

afterAll(() => {
  probes.close();
  folder.remove();
});

beforeEach(empty);

const writeTimes = (count: number) => bash(`${PROGRAM} if=/dev/zero of=/dev/null bs=1 count=${count} status=none`);

/** Other programs of the machine may set labels meanwhile, whose definitions come into a ring. */
function empty(): void {
  const buffer = new Uint8Array(RING_BYTES);
  while (probes.pendingBytes() > 0) {
    probes.events.drain(buffer);
    probes.definitions.drain(buffer);
    probes.fileDefinitions.drain(buffer);
  }
}

function startSleep(timeoutMs = FOREVER_MS) {
  const stop = new AbortController();
  const sleeping = { hasEnded: false, stop };
  const ended = probes.sleep({ timeoutMs, signal: stop.signal }).then((isFillingUp) => {
    sleeping.hasEnded = true;
    return isFillingUp;
  });
  return { sleeping, ended };
}

test('the first record wakes it, again and again', async () => {
  for (let i = 0; i < 20; i++) {
    empty();
    const { ended } = startSleep();
    // Before and while the event loop waits.
    if (i % 2) await sleep(10);
    writeTimes(1);
    expect(await ended).toBe(false);
    expect(probes.pendingBytes()).toBeGreaterThan(0);
  }
});

test('a record that came before it sleeps does not keep it asleep', async () => {
  writeTimes(1);
  const { ended } = startSleep(50);
  await ended;
});

test('with records in a ring, some more do not wake it, and many do', async () => {
  writeTimes(1);
  const { sleeping, ended } = startSleep();
  await sleep(20);
  for (let i = 0; i < 5; i++) writeTimes(10);
  await sleep(100);
  expect(sleeping.hasEnded).toBe(false);
  // An eighth of 1 MiB holds some 1200 records.
  writeTimes(5000);
  expect(await ended).toBe(true);
  expect(probes.events.fullestBytes()).toBeGreaterThan(RING_BYTES / 8);
});

test('it ends by its signal', async () => {
  const { sleeping, ended } = startSleep();
  sleeping.stop.abort();
  await ended;
});
