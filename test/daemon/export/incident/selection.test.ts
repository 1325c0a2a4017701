/** Tests which events, losses and clock steps an export includes. */
import {
  buildSelection,
  listLosses,
  type SelectionOptions,
  selectClockSteps,
} from '../../../../daemon/export/incident/selection.ts';
import { openSource, type Source } from '../../../../daemon/export/source.ts';
import { readBlockEvents } from '../../../../daemon/store/blocks/event.ts';
import { recorded, START } from '../../recorded.ts';
import { INCIDENT } from '../exported.ts';

let source: Source;
beforeAll(() => {
  const folder = recorded(INCIDENT, (writer) => {
    const loss = (fromNs: bigint, count: number) =>
      writer.recordLoss({ cause: 'ring_full', eventType: null, count, fromNs, toNs: fromNs + 100n });
    loss(START + 900n, 1);
    loss(START + 2150n, 2);
    loss(START + 8000n, 4);
    // The clock is set forward by 1 at 1100 and at 5000.
    for (const [i, wallNs] of [START - 500n, START + 1100n, START + 5000n].entries()) {
      const bootNs = wallNs - START + 1000n - BigInt(i);
      writer.recordClock({ bootNs, offsetNs: wallNs - bootNs, kind: 'step', suspendedNs: 0n });
    }
  });
  source = openSource(folder);
});
afterAll(() => source.close());

const NOW = START + 10_000n;
const select = (options: Partial<SelectionOptions>) => buildSelection(source, { contextNs: 0n, ...options }, NOW);

const ORDER_1 = { transactionId: 'order-1' };

test.each<[string, Partial<SelectionOptions>, number[]]>([
  ['a transaction', ORDER_1, [2, 3]],
  ['what ran concurrently', { ...ORDER_1, contextNs: 1n }, [2, 3]],
  ['with a context after it', { ...ORDER_1, contextNs: 300n }, [2, 3, 4]],
  ['with a context on both sides', { ...ORDER_1, contextNs: 1000n }, [1, 2, 3, 4]],
  ['only one service of that', { ...ORDER_1, contextNs: 1000n, services: ['cart'] }, [1, 4]],
  ['one type of a transaction', { ...ORDER_1, eventTypes: ['block_io'] }, [3]],
  ['everything', { from: { atNs: 0n } }, [1, 2, 3, 4, 5]],
  ['a window', { from: { atNs: START + 1000n }, to: { atNs: START + 2500n } }, [2, 3]],
  ['a window without a start', { to: { atNs: START + 1n } }, [1]],
  ['a window back from now', { from: { backNs: 7500n } }, [4, 5]],
  ['some services', { from: { atNs: 0n }, services: ['cart', 'none'] }, [1, 4]],
])('%s', (_, options, pids) => {
  const { filter } = select(options);
  expect([...source.scan(filter)].flatMap(readBlockEvents).map(({ pid }) => pid)).toEqual(pids);
});

test('losses are those that overlap the window', () => {
  const lost = (options: Partial<SelectionOptions>) =>
    listLosses(source, select(options), source.reader.unended()).map(({ count }) => count);
  expect(lost(ORDER_1)).toEqual([1, 2]);
  expect(lost({ ...ORDER_1, contextNs: 6000n })).toEqual([1, 2, 4]);
  expect(lost({ from: { atNs: START + 3000n } })).toEqual([4]);
  expect(lost({ to: { atNs: START } })).toEqual([]);
});

test('clock steps are those in the window and the one in force before it', () => {
  const steps = (options: Partial<SelectionOptions>) =>
    selectClockSteps(source, select(options).window).map(({ bootNs, offsetNs }) => bootNs + offsetNs - START);
  expect(steps(ORDER_1)).toEqual([-500n, 1100n]);
  expect(steps({ from: { atNs: START + 1100n } })).toEqual([1100n, 5000n]);
  expect(steps({ from: { atNs: 0n } })).toEqual([-500n, 1100n, 5000n]);
  expect(steps({ to: { atNs: START - 600n } })).toEqual([]);
});

test('after the clock was set back, a window includes both steps that had its times', () => {
  const step = (bootNs: bigint, offsetNs: bigint, kind: 'start' | 'step' = 'step') => ({
    ...{ bootNs, offsetNs: START + offsetNs, kind, suspendedNs: 0n },
  });
  // The clock shows 0 to 1000, then 400 to 900, then 2000 and later; then another agent starts.
  const all = [step(0n, 0n, 'start'), step(1000n, -600n), step(1500n, 500n), step(4000n, 500n, 'start')];
  const folder = recorded(INCIDENT, (writer) => all.forEach(writer.recordClock));
  const opened = openSource(folder);
  const steps = (from: bigint, to: bigint) =>
    selectClockSteps(opened, { fromNs: START + from, toNs: START + to }).map((one) => all.findIndex(isSame(one)));
  expect(steps(0n, 100n)).toEqual([0]);
  expect(steps(300n, 401n)).toEqual([0, 1]);
  expect(steps(500n, 600n)).toEqual([0, 1]);
  expect(steps(900n, 1000n)).toEqual([0]);
  expect(steps(1000n, 2000n)).toEqual([]);
  expect(steps(950n, 2001n)).toEqual([0, 2]);
  expect(steps(4400n, 9000n)).toEqual([2, 3]);
  opened.close();
});

const isSame = (one: { bootNs: bigint }) => (other: { bootNs: bigint }) => one.bootNs === other.bootNs;

test('a context before the epoch starts at the epoch', () => {
  expect(select({ ...ORDER_1, contextNs: 2n ** 63n }).window.fromNs).toBe(0n);
});

test('a window that ends before it begins is reported', () => {
  expect(() => select({ from: { atNs: 10n }, to: { atNs: 9n } })).toThrow('--from must be earlier than --to');
});
