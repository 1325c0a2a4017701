/** Tests waiting on a simulated clock that logs each way of letting time pass, and with the timers of Node.js. */
import { createNodeTimers, createTimerWaiter, type Timers } from '../../../../daemon/replay/clock/scheduler.ts';
import { createSimulatedClock } from '../simulated_clock.ts';

const MS = 1_000_000n;
const HOUR = 3_600_000n * MS;

type Step = 'timer' | 'turn';

function newWaiter() {
  const clock = createSimulatedClock();
  const steps: Step[] = [];
  const { timers } = clock;
  const noted: Timers = {
    ...timers,
    setTimeout(callback, delayMs) {
      steps.push('timer');
      return timers.setTimeout(callback, delayMs);
    },
    setImmediate(callback) {
      steps.push('turn');
      return timers.setImmediate(callback);
    },
  };
  return { clock, steps, waiter: createTimerWaiter(clock.now, noted) };
}

test.each([0n, 1n, 70_000n, 200_001n, 900_000n, MS, 7n * MS + 1n, 90_000n * MS])(
  'a deadline %p ns ahead is met, never early',
  (aheadNs) => {
    const { clock, waiter } = newWaiter();
    const dueNs = clock.now() + aheadNs;
    const woken: bigint[] = [];
    waiter.waitUntil(dueNs, () => woken.push(clock.now()));
    expect(woken).toEqual([]);
    clock.advance(aheadNs + MS);
    expect(woken).toHaveLength(1);
    expect(woken[0]! - dueNs).toBeGreaterThanOrEqual(0n);
    expect(woken[0]! - dueNs).toBeLessThanOrEqual(10_000n);
  },
);

test('a wait of hours needs one timer', () => {
  const { clock, steps, waiter } = newWaiter();
  waiter.waitUntil(clock.now() + 10n * HOUR, () => {});
  clock.advance(10n * HOUR - 2n * MS);
  expect(steps).toEqual(['turn', 'timer']);
});

test('a deadline that passed while the process was stopped wakes it at once', () => {
  const { clock, waiter } = newWaiter();
  const dueNs = clock.now() + HOUR;
  let wokenAt = 0n;
  waiter.waitUntil(dueNs, () => {
    wokenAt = clock.now();
  });
  clock.stall(2n * HOUR);
  clock.advance(MS);
  expect(wokenAt).toBeGreaterThanOrEqual(dueNs + HOUR);
});

test('a new deadline replaces the old one, and a cancelled one does not wake', () => {
  const { clock, waiter } = newWaiter();
  const woken: string[] = [];
  waiter.waitUntil(clock.now() + 5n * MS, () => woken.push('old'));
  waiter.waitUntil(clock.now() + 9n * MS, () => woken.push('new'));
  clock.advance(20n * MS);
  waiter.waitUntil(clock.now() + 5n * MS, () => woken.push('cancelled'));
  clock.advance(4n * MS);
  waiter.cancel();
  clock.advance(20n * MS);
  expect(woken).toEqual(['new']);
});

test('a timer that fires too early wakes no caller', async () => {
  const waiter = createTimerWaiter(process.hrtime.bigint, createNodeTimers());
  for (const aheadNs of [0n, 1n, 400_000n, 1_999_999n, 3_000_001n]) {
    const dueNs = process.hrtime.bigint() + aheadNs;
    await new Promise<void>((wake) => waiter.waitUntil(dueNs, wake));
    expect(process.hrtime.bigint()).toBeGreaterThanOrEqual(dueNs);
  }
});
