/** Tests waiting on a simulated clock that logs each way of letting time pass; and holding the real thread. */
import { createThreadSleeper } from '../../../daemon/replay/clock/thread_sleep.ts';
import { type Timers, timerWaiter } from '../../../daemon/replay/clock/waiting.ts';
import { createSimulatedClock } from './simulated_clock.ts';

const MS = 1_000_000n;
const HOUR = 3_600_000n * MS;
/** The longest that a request which arrives meanwhile may have to wait. */
const BLOCKED_NS_MAX = 200_000;

type Step = { by: 'timer' | 'turn' | 'sleep' | 'hold'; ns: number };

function newWaiter() {
  const clock = createSimulatedClock();
  const steps: Step[] = [];
  const { timers } = clock;
  const noted: Timers = {
    ...timers,
    setTimeout(callback, delayMs) {
      steps.push({ by: 'timer', ns: delayMs * 1e6 });
      return timers.setTimeout(callback, delayMs);
    },
    setImmediate(callback) {
      steps.push({ by: 'turn', ns: 0 });
      return timers.setImmediate(callback);
    },
    sleep(ns) {
      steps.push({ by: 'sleep', ns });
      timers.sleep(ns);
    },
    hold(ns) {
      steps.push({ by: 'hold', ns });
      timers.hold(ns);
    },
  };
  return { clock, steps, waiter: timerWaiter(clock.now, noted) };
}

test.each([0n, 1n, 70_000n, 200_001n, 900_000n, MS, 7n * MS + 1n, 90_000n * MS])(
  'a deadline %p ns ahead is met, never early',
  (aheadNs) => {
    const { clock, waiter } = newWaiter();
    const dueNs = clock.now() + aheadNs;
    const woken: bigint[] = [];
    waiter.until(dueNs, () => woken.push(clock.now()));
    expect(woken).toEqual([]);
    clock.advance(aheadNs + MS);
    expect(woken).toHaveLength(1);
    expect(woken[0]! - dueNs).toBeGreaterThanOrEqual(0n);
    expect(woken[0]! - dueNs).toBeLessThanOrEqual(10_000n);
  },
);

test('the thread is blocked only briefly, and sockets have a turn in between', () => {
  const { clock, steps, waiter } = newWaiter();
  for (let deadline = 0; deadline < 50; deadline++) {
    waiter.until(clock.now() + 1_370_000n, () => steps.push({ by: 'turn', ns: 0 }));
    clock.advance(2n * MS);
  }
  const blocks = steps.flatMap(({ by, ns }, place) => (by === 'sleep' || by === 'hold' ? [{ ns, place }] : []));
  expect(blocks.length).toBeGreaterThanOrEqual(100);
  for (const { ns, place } of blocks) {
    expect(ns).toBeLessThanOrEqual(BLOCKED_NS_MAX);
    expect(['turn', 'timer']).toContain(steps[place - 1]!.by);
  }
});

test('a wait of hours needs one timer', () => {
  const { clock, steps, waiter } = newWaiter();
  waiter.until(clock.now() + 10n * HOUR, () => {});
  clock.advance(10n * HOUR - 2n * MS);
  expect(steps.map(({ by }) => by)).toEqual(['turn', 'timer']);
});

test('a deadline that passed while the process was stopped wakes it at once', () => {
  const { clock, steps, waiter } = newWaiter();
  const dueNs = clock.now() + HOUR;
  let wokenAt = 0n;
  waiter.until(dueNs, () => {
    wokenAt = clock.now();
  });
  clock.stall(2n * HOUR);
  clock.advance(MS);
  expect(wokenAt).toBeGreaterThanOrEqual(dueNs + HOUR);
  expect(steps.filter(({ by }) => by === 'hold' || by === 'sleep')).toEqual([]);
});

test('a new deadline replaces the old one, and a cancelled one does not wake', () => {
  const { clock, waiter } = newWaiter();
  const woken: string[] = [];
  waiter.until(clock.now() + 5n * MS, () => woken.push('old'));
  waiter.until(clock.now() + 9n * MS, () => woken.push('new'));
  clock.advance(20n * MS);
  waiter.until(clock.now() + 5n * MS, () => woken.push('cancelled'));
  clock.advance(4n * MS);
  waiter.cancel();
  clock.advance(20n * MS);
  expect(woken).toEqual(['new']);
});

test('a hold is never too short, whatever the load of the machine', () => {
  const sleeper = createThreadSleeper();
  for (let durationNs = 0; durationNs < 200_000; durationNs += 997) {
    const startNs = process.hrtime.bigint();
    sleeper.hold(durationNs);
    // Milliseconds are doubles, so the last digits of a nanosecond are lost.
    expect(Number(process.hrtime.bigint() - startNs)).toBeGreaterThanOrEqual(durationNs - 10);
  }
});
