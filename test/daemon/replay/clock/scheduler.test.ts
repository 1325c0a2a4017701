/** Tests deadlines on a simulated clock: every alarm rings once, never early, in order, at any number of alarms. */
import fc from 'fast-check';
import { createHeap } from '../../../../daemon/base/heap.ts';
import { createScheduler, createTimerWaiter } from '../../../../daemon/replay/clock/scheduler.ts';
import { createSimulatedClock } from '../simulated_clock.ts';

const MS = 1_000_000n;

function newScheduler() {
  const clock = createSimulatedClock();
  return { clock, scheduler: createScheduler(clock.now, createTimerWaiter(clock.now, clock.timers)) };
}

test('the heap yields its items in order after any removals', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(50)), fc.array(fc.nat()), (values, removals) => {
      const heap = createHeap<{ slot: number; value: number }>((a, b) => a.value < b.value);
      const items = values.map((value) => ({ slot: -1, value }));
      for (const item of items) heap.push(item);
      for (const removal of removals) {
        if (items.length > 0) heap.remove(items.splice(removal % items.length, 1)[0]!);
      }
      const given: number[] = [];
      for (let item = heap.peek(); item; item = heap.peek()) {
        given.push(item.value);
        heap.remove(item);
      }
      expect(given).toEqual(items.map(({ value }) => value).sort((a, b) => a - b));
    }),
  );
});

test('200 alarms that set themselves again ring 50 times each, none early and none out of order', () => {
  const { clock, scheduler } = newScheduler();
  const rung: { alarm: number; dueNs: bigint; atNs: bigint }[] = [];
  const startNs = clock.now();
  for (let alarm = 0; alarm < 200; alarm++) {
    const periodNs = BigInt(alarm + 1) * 100_003n;
    let round = 1n;
    const { set } = scheduler.createAlarm(() => {
      rung.push({ alarm, dueNs: startNs + round * periodNs, atNs: clock.now() });
      if (++round <= 50n) set(startNs + round * periodNs);
    });
    set(startNs + periodNs);
  }
  clock.advance(2000n * MS);
  expect(rung).toHaveLength(200 * 50);
  expect(rung.every(({ dueNs, atNs }) => atNs >= dueNs)).toBe(true);
  // A turn of the simulated loop is 5 us; an alarm may be late by only that and the timer's share.
  expect(rung.every(({ dueNs, atNs }) => atNs - dueNs < 20_000n)).toBe(true);
  expect(rung).toEqual(rung.toSorted((a, b) => Number(a.atNs - b.atNs)));
});

test('an alarm that is set again rings only at the new time', () => {
  const { clock, scheduler } = newScheduler();
  const rung: bigint[] = [];
  const alarm = scheduler.createAlarm(() => rung.push(clock.now()));
  const startNs = clock.now();
  alarm.set(startNs + 10n * MS);
  alarm.set(startNs + 30n * MS);
  clock.advance(20n * MS);
  expect(rung).toEqual([]);
  alarm.set(startNs + 25n * MS);
  clock.advance(100n * MS);
  expect(rung).toHaveLength(1);
  expect(rung[0]! >= startNs + 25n * MS && rung[0]! < startNs + 26n * MS).toBe(true);
});

test('a cleared alarm does not ring, even when another clears it in the same turn', () => {
  const { clock, scheduler } = newScheduler();
  const rung: string[] = [];
  const first = scheduler.createAlarm(() => {
    rung.push('first');
    second.clear();
  });
  const second = scheduler.createAlarm(() => rung.push('second'));
  const third = scheduler.createAlarm(() => rung.push('third'));
  const dueNs = clock.now() + 5n * MS;
  for (const alarm of [first, second, third]) alarm.set(dueNs);
  third.clear();
  clock.advance(50n * MS);
  expect(rung).toEqual(['first']);
});

test('an alarm with endless work does not keep others from ringing', () => {
  const { clock, scheduler } = newScheduler();
  let greedyRings = 0;
  let otherRungAfter: number | undefined;
  const greedy = scheduler.createAlarm(() => {
    if (++greedyRings < 1000) greedy.set(0n);
  });
  const other = scheduler.createAlarm(() => {
    otherRungAfter = greedyRings;
  });
  greedy.set(0n);
  other.set(clock.now());
  clock.advance(100n * MS);
  expect(greedyRings).toBe(1000);
  expect(otherRungAfter).toBeLessThanOrEqual(2);
});

test('slow alarms ring over several turns: each once, in order, before later ones', () => {
  const { clock, scheduler } = newScheduler();
  const rung: string[] = [];
  let turns = 0;
  const countTurns = () => {
    turns++;
    clock.timers.setImmediate(countTurns);
  };
  countTurns();
  const startNs = clock.now();
  const turnsAt: number[] = [];
  for (let i = 0; i < 10; i++) {
    let again = true;
    const alarm = scheduler.createAlarm(() => {
      clock.stall(400_000n);
      rung.push(`${again ? 'first' : 'second'} ${i}`);
      turnsAt.push(turns);
      if (again) alarm.set(startNs);
      again = false;
    });
    alarm.set(startNs - BigInt(10 - i));
  }
  clock.advance(20n * MS);
  const round = (name: string) => Array.from({ length: 10 }, (_, i) => `${name} ${i}`);
  expect(rung.slice(0, 10)).toEqual(round('first'));
  expect(rung.slice(10).toSorted()).toEqual(round('second'));
  // Each alarm takes 0.4 ms: no more than two of them may ring between two turns.
  for (let i = 2; i < turnsAt.length; i++) expect(turnsAt[i]! > turnsAt[i - 2]!).toBe(true);
});

test('the rest of a round can still be cleared or closed', () => {
  for (const end of ['clear', 'close'] as const) {
    const { clock, scheduler } = newScheduler();
    const rung: number[] = [];
    const alarms = [0, 1, 2].map((i) =>
      scheduler.createAlarm(() => {
        clock.stall(MS);
        rung.push(i);
      }),
    );
    const dueNs = clock.now();
    for (const alarm of alarms) alarm.set(dueNs);
    clock.timers.setImmediate(() => {
      // This runs in the turn in which the first alarm has rung.
      if (end === 'close') scheduler.close();
      else for (const alarm of alarms.slice(1)) alarm.clear();
    });
    clock.advance(50n * MS);
    expect(rung).toEqual([0]);
  }
});

test('a deadline weeks ahead is not truncated to a timer of 1 ms', () => {
  const { clock, scheduler } = newScheduler();
  const startNs = clock.now();
  let rungAt: bigint | undefined;
  const weeksNs = 60n * 86_400_000n * MS;
  scheduler
    .createAlarm(() => {
      rungAt = clock.now();
    })
    .set(startNs + weeksNs);
  clock.advance(weeksNs - MS);
  expect(rungAt).toBeUndefined();
  clock.advance(2n * MS);
  expect(rungAt).toBeGreaterThanOrEqual(startNs + weeksNs);
});

test('after a stall everything that was due rings once, in order', () => {
  const { clock, scheduler } = newScheduler();
  const rung: number[] = [];
  const startNs = clock.now();
  for (let i = 0; i < 20; i++) scheduler.createAlarm(() => rung.push(i)).set(startNs + BigInt(i + 1) * MS);
  clock.stall(50n * MS);
  clock.advance(MS);
  expect(rung).toEqual(Array.from({ length: 20 }, (_, i) => i));
});

test('nothing rings after close', () => {
  const { clock, scheduler } = newScheduler();
  let rung = 0;
  const alarm = scheduler.createAlarm(() => rung++);
  alarm.set(clock.now() + MS);
  scheduler.close();
  alarm.set(clock.now() + MS);
  clock.advance(10n * MS);
  expect(rung).toBe(0);
});
