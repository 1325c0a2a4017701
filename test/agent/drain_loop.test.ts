/** An agent's loop over rings that a test fills: draining them comes before looks at what is in progress. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type DrainParts, drainUntil } from '../../agent/drain_loop.ts';

const MIB = 1 << 20;

/** Runs the loop on rings that hold `pendingBytes` before each turn, until `isDone`. */
async function run(
  pendingBytes: () => number,
  isDone: (progress: { looks: number; settled: number }) => boolean,
  leftBytes = 0,
) {
  const startedMs = performance.now();
  const stop = new AbortController();
  const seen = { looks: 0, settled: 0, shed: 0 };
  /** Whether events were taken out of the ring, and nothing was said since of what is in progress. */
  let isUnsettled = false;
  const progress = { polledMs: 0, completeNs: 0n };
  let drainedBytes = 0;
  const rings = {
    pendingBytes: () => (stop.signal.aborted ? leftBytes : pendingBytes()),
    detach() {},
    sleep: ({ timeoutMs }: { timeoutMs: number }) => sleep(timeoutMs, false),
    events: {
      takePeakBytes: () => 0,
      markBacklog() {
        const endBytes = drainedBytes + pendingBytes();
        return () => drainedBytes >= endBytes;
      },
    },
  };
  const recorder = {
    drain() {
      if (isDone(seen)) stop.abort();
      isUnsettled = true;
      drainedBytes += MIB;
      return stop.signal.aborted ? 0 : MIB;
    },
    findInProgress() {
      seen.looks++;
      return { found: 300, foundNs: 0 };
    },
    settleInProgress(isDrained: boolean) {
      if (isDrained) seen.settled++;
      isUnsettled = false;
    },
    recordShed() {
      seen.shed++;
    },
    checkPublishers: () => Number.POSITIVE_INFINITY,
  };
  const parts = {
    recorder,
    probes: rings,
    progress,
    writer: {
      flush: () => expect(isUnsettled).toBe(false),
      isOverwritten: () => false,
      damage: () => undefined,
    },
    clock: { nowNs: () => process.hrtime.bigint() },
    counts: { seeRing() {} },
    files: { areThere: () => true },
  };
  await drainUntil(stop.signal, parts as unknown as DrainParts);
  return { ...seen, seconds: (performance.now() - startedMs) / 1000 };
}

test('a flood is drained before the loop looks at what is in progress, and answers still become complete', async () => {
  const { looks, settled, shed, seconds } = await run(
    () => 4 * MIB,
    (progress) => progress.settled >= 2,
  );
  // The last is the one of the end.
  expect(settled).toBe(3);
  expect(looks).toBe(3);
  // The loop records the left-out calls before it moves the time up to which answers are complete.
  expect(shed).toBe(3);
  expect(seconds).toBeGreaterThan(1);
});

test('a record that stays unfinished at the end leaves nothing in progress that has ended', async () => {
  const { looks, settled, shed } = await run(
    () => 0,
    () => true,
    8,
  );
  // The loop looked once more at its end, which was not drained.
  expect([looks, settled, shed]).toEqual([2, 1, 2]);
});
