/** Which events, losses and clock steps an export takes along. */
import { clockStepsIn, lossesIn, type SelectionOptions, selectionOf } from '../../daemon/export/selection.ts';
import { openSource, type Source } from '../../daemon/export/source.ts';
import { eventsOf } from '../../daemon/store/event.ts';
import { type Row, recorded, START } from '../daemon/recorded.ts';

const ROWS: readonly Row[] = [
  { at: START, service: 'cart', pid: 1 },
  { at: START + 1000n, duration: 500n, transaction: 'order-1', pid: 2 },
  { type: 'block_io', at: START + 1200n, duration: 1000n, transaction: 'order-1', pid: 3 },
  { at: START + 2500n, service: 'cart', pid: 4 },
  { at: START + 9000n, transaction: 'order-2', pid: 5 },
];

let source: Source;
beforeAll(() => {
  const folder = recorded(ROWS, (writer) => {
    const loss = (fromNs: bigint, count: number) =>
      writer.recordLoss({ cause: 'ring_full', eventType: null, count, fromNs, toNs: fromNs + 100n });
    loss(START + 900n, 1);
    loss(START + 2150n, 2);
    loss(START + 8000n, 4);
    for (const wallNs of [START - 500n, START + 1100n, START + 5000n])
      writer.recordClock({ bootNs: 10n, offsetNs: wallNs - 10n, kind: 'step', suspendedNs: 0n });
  });
  source = openSource(folder);
});
afterAll(() => source.close());

const NOW = START + 10_000n;
const select = (options: Partial<SelectionOptions>) => selectionOf(source, { contextNs: 0n, ...options }, NOW);

const ORDER_1 = { transactionId: 'order-1' };

test.each<[string, Partial<SelectionOptions>, number[]]>([
  ['a transaction', ORDER_1, [2, 3]],
  ['what ran beside it', { ...ORDER_1, contextNs: 1n }, [2, 3]],
  ['with a context behind it', { ...ORDER_1, contextNs: 300n }, [2, 3, 4]],
  ['with a context on both sides', { ...ORDER_1, contextNs: 1000n }, [1, 2, 3, 4]],
  ['of that only one service', { ...ORDER_1, contextNs: 1000n, services: ['cart'] }, [1, 4]],
  ['one type of a transaction', { ...ORDER_1, eventTypes: ['block_io'] }, [3]],
  ['everything', { from: { atNs: 0n } }, [1, 2, 3, 4, 5]],
  ['a window', { from: { atNs: START + 1000n }, to: { atNs: START + 2500n } }, [2, 3]],
  ['a window without a start', { to: { atNs: START + 1n } }, [1]],
  ['a window back from now', { from: { backNs: 7500n } }, [4, 5]],
  ['some services', { from: { atNs: 0n }, services: ['cart', 'none'] }, [1, 4]],
])('%s', (_, options, pids) => {
  const { filter } = select(options);
  expect([...source.scan(filter)].flatMap(eventsOf).map(({ pid }) => pid)).toEqual(pids);
});

test('losses are those that touch the window', () => {
  const lost = (options: Partial<SelectionOptions>) =>
    lossesIn(source, select(options).window).map(({ count }) => count);
  expect(lost(ORDER_1)).toEqual([1, 2]);
  expect(lost({ ...ORDER_1, contextNs: 6000n })).toEqual([1, 2, 4]);
  expect(lost({ from: { atNs: START + 3000n } })).toEqual([4]);
  expect(lost({ to: { atNs: START } })).toEqual([]);
});

test('clock steps are those in the window and the one in force before it', () => {
  const steps = (options: Partial<SelectionOptions>) =>
    clockStepsIn(source, select(options).window).map(({ offsetNs }) => offsetNs + 10n - START);
  expect(steps(ORDER_1)).toEqual([-500n, 1100n]);
  expect(steps({ from: { atNs: START + 1100n } })).toEqual([1100n, 5000n]);
  expect(steps({ from: { atNs: 0n } })).toEqual([-500n, 1100n, 5000n]);
  expect(steps({ to: { atNs: START - 600n } })).toEqual([]);
});

test('a context before the epoch is one from it', () => {
  expect(select({ ...ORDER_1, contextNs: 2n ** 63n }).window.fromNs).toBe(0n);
});

test('a window that ends before it begins is told', () => {
  expect(() => select({ from: { atNs: 10n }, to: { atNs: 9n } })).toThrow('--from must be earlier than --to');
});
