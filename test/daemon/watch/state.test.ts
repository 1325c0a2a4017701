/** Tests the state of a watcher: limits, cool-downs, and that a second look at the same events changes nothing. */
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import {
  type AddedMatch,
  buildDeliveryId,
  type FoundMatch,
  type MatchLimits,
  openWatchState,
  STATE_FILE,
  type WatchState,
} from '../../../daemon/watch/state.ts';
import { times } from '../../repeats.ts';
import { newFolder } from '../recorded.ts';

const S = 1_000_000_000n;
const LIMITS: MatchLimits = { coolDownNs: 0n, perMinuteMax: 1000, queueMax: 100 };
const RECORDING = '0123456789abcdef';

const found = (transactionId: string, atNs: bigint, more: Partial<FoundMatch> = {}): FoundMatch => ({
  rule: 'slow',
  transactionId,
  recordingId: RECORDING,
  service: 'shop',
  atNs,
  ...more,
});

const states: WatchState[] = [];
afterEach(() => {
  for (const state of states.splice(0)) state.close();
});

function open(folder = newFolder()): WatchState {
  const state = openWatchState(folder);
  states.push(state);
  return state;
}

const outcomesOf = (added: readonly AddedMatch[]) => added.map(({ outcome }) => outcome);

const dueIds = (state: WatchState) => state.listDue(Date.now(), Date.now() + 1, 1000).map((due) => due.transactionId);

test('a match has one pin, one bundle and one delivery, however often it is found', () => {
  const folder = newFolder();
  const state = open(folder);
  const one = found('order-1', 5n * S);
  expect(state.add(one, LIMITS, 1)).toEqual([{ found: one, outcome: 'matched' }]);
  expect(outcomesOf(state.add({ ...one, atNs: 6n * S }, LIMITS, 2))).toEqual(['known']);
  expect(outcomesOf(state.add({ ...one, rule: 'failed' }, LIMITS, 2))).toEqual(['matched']);
  expect(state.count()).toMatchObject({ incidents: 1, pinsDue: 1, bundlesDue: 1, deliveriesDue: 2 });
  states.pop()!.close();

  const again = open(folder);
  expect(outcomesOf(again.add(one, LIMITS, 3))).toEqual(['known']);
  const [due] = again.listDue(Date.now(), Date.now(), 10);
  expect(due).toMatchObject({ deliveryId: buildDeliveryId(due!.rule === 'slow' ? one : { ...one, rule: 'failed' }) });
  again.setDelivery(due!, 'due', Date.now() + 60_000);
  expect(again.listDue(Date.now(), Date.now(), 10)).toHaveLength(1);
});

test('after an incident is over, its transaction matches again, with another delivery', () => {
  const state = open();
  const one = found('order-1', 5n * S);
  const ids = [1, 2, 3].map((nowMs) => {
    expect(outcomesOf(state.add(one, LIMITS, nowMs))).toEqual(['matched']);
    const incident = state.findIncident(RECORDING, 'order-1')!;
    expect(incident).toMatchObject({ matchedMs: nowMs, pin: 'due', bundle: 'due', followed: 1 });
    state.end(incident.incidentId);
    expect(state.findIncident(RECORDING, 'order-1')).toBeUndefined();
    return incident.incidentId;
  });
  const due = state.listDue(Date.now(), Date.now(), 10);
  expect(new Set(due.map(({ incidentId }) => incidentId))).toEqual(new Set(ids));
  expect(new Set(due.map(({ deliveryId }) => deliveryId)).size).toBe(3);
  expect(due.map(({ deliveryId }) => deliveryId)).toContain(buildDeliveryId(one));
});

test('a change is whole or not at all', () => {
  const state = open();
  const fail = () => {
    throw new Error('no');
  };
  expect(() =>
    state.change(() => {
      state.add(found('order-1', S), LIMITS, 1);
      state.move(RECORDING, 7);
      fail();
    }),
  ).toThrow('no');
  expect([state.count().incidents, state.getPosition(RECORDING), state.hasPosition()]).toEqual([0, undefined, false]);
});

test('at-least keeps all that reach the rate, at-most and the limit of a minute drop others', () => {
  const state = open();
  const atLeast = { ...LIMITS, atLeast: { count: 3, withinNs: 10n * S } };
  const add = (id: string, at: bigint) => outcomesOf(state.add(found(id, at), atLeast, 1));
  expect([add('a', S), add('b', 12n * S), add('b', 12n * S), add('c', 13n * S)].flat()).toEqual(
    Array(4).fill('counted'),
  );
  expect(
    state.add(found('d', 14n * S), atLeast, 1).map(({ found: one, outcome }) => [one.transactionId, outcome]),
  ).toEqual([
    ['b', 'matched'],
    ['c', 'matched'],
    ['d', 'matched'],
  ]);
  expect(add('e', 15n * S)).toEqual(['known', 'known', 'known', 'matched']);
  expect(state.findIncident(RECORDING, 'a')).toBeUndefined();
  // One that only counted counts again when its id is used later.
  expect([add('a', 100n * S), add('f', 101n * S), add('f', 101n * S)].flat()).toEqual(Array(3).fill('counted'));
  expect(add('g', 102n * S)).toEqual(['matched', 'matched', 'matched']);

  // One that a limit drops is dropped once, and goes on to count.
  const both = open();
  const limits = { ...atLeast, atMost: { count: 2, withinNs: 60n * S } };
  const added = [1n, 2n, 3n, 4n, 5n, 3n].map((at) => outcomesOf(both.add(found(`t-${at}`, at * S), limits, 1)));
  expect(added.flat().filter((outcome) => outcome === 'rate')).toHaveLength(3);
  expect(added.slice(2, 4)).toEqual([
    ['matched', 'matched', 'rate'],
    ['known', 'known', 'rate'],
  ]);

  const most = open();
  const atMost = { ...LIMITS, atMost: { count: 2, withinNs: 10n * S }, perMinuteMax: 3 };
  const outcomes = [1n, 2n, 3n, 12n, 13n, 63n].map((at) => most.add(found(`t-${at}`, at * S), atMost, 1)[0]!.outcome);
  expect(outcomes).toEqual(['matched', 'matched', 'rate', 'matched', 'minute', 'matched']);
});

test('the limit of a minute is for rules: alerts neither meet it nor use it up', () => {
  const state = open();
  const limits = { ...LIMITS, perMinuteMax: 2 };
  const addAlert = (id: string) =>
    outcomesOf(state.add(found(id, S, { rule: 'alert:Slow' }), { ...LIMITS, perMinuteMax: undefined }, 1));
  expect([addAlert('a'), addAlert('b'), addAlert('c')].flat()).toEqual(Array(3).fill('matched'));
  const ofRule = ['d', 'e', 'f'].flatMap((id) => outcomesOf(state.add(found(id, S), limits, 1)));
  expect(ofRule).toEqual(['matched', 'matched', 'minute']);
  expect(addAlert('f')).toEqual(['matched']);
});

test('a cool-down holds deliveries back for its rule and service, and the next one says how many', () => {
  const state = open();
  const limits = { ...LIMITS, coolDownNs: 10n * S };
  for (const [id, at, service] of [
    ['a', 100n, 'shop'],
    ['b', 105n, 'shop'],
    ['c', 106n, 'till'],
    ['d', 109n, 'shop'],
    ['e', 111n, 'shop'],
    // The clock was set back.
    ['f', 50n, 'shop'],
  ] as const)
    expect(outcomesOf(state.add(found(id, at * S, { service }), limits, 1))).toEqual(['matched']);
  const due = state.listDue(Date.now(), Date.now(), 10).sort((a, b) => (a.transactionId < b.transactionId ? -1 : 1));
  expect(due.map(({ transactionId, held }) => [transactionId, held])).toEqual([
    ['a', 0],
    ['c', 0],
    ['e', 2],
    ['f', 0],
  ]);
  expect(state.count().pinsDue).toBe(6);
});

test('a full queue drops deliveries but no pins, and without a webhook there are none', () => {
  const state = open();
  for (let i = 0; i < 5; i++) state.add(found(`t-${i}`, BigInt(i)), { ...LIMITS, queueMax: 2 }, 1);
  expect(state.count()).toMatchObject({ pinsDue: 5, deliveriesDue: 2 });
  state.add(found('quiet', 9n), { ...LIMITS, queueMax: 0 }, 1);
  expect(dueIds(state)).not.toContain('quiet');
});

test('a delivery waits for its pin and its bundle, but not for ever', () => {
  const state = open();
  const now = 1_000_000;
  state.add(found('a', S), LIMITS, now);
  state.add(found('b', S), LIMITS, now);
  const { incidentId } = state.findIncident(RECORDING, 'a')!;
  const due = (patientMs: number) => state.listDue(now, patientMs, 10).map(({ transactionId }) => transactionId);
  expect(due(now - 1)).toEqual([]);
  state.setProblem(incidentId, 'the disk is full');
  expect(due(now - 1)).toEqual([]);
  state.setPin(incidentId, 'set');
  expect(due(now - 1)).toEqual(['a']);
  state.setWritten(incidentId, 'a.kreplay', 10, 5, now);
  expect([due(now - 1), due(now + 1)]).toEqual([['a'], ['a', 'b']]);
  // A delivery that is to be made again waits, unless the clock was set back.
  const [a] = state.listDue(now, now - 1, 10);
  state.setDelivery(a!, 'due', now + 60_000);
  expect([due(now - 1), state.listDue(now - 86_400_000, now - 1, 10).length]).toEqual([[], 1]);
  state.setDelivery(a!, 'done');
  expect(due(now - 1)).toEqual([]);
});

test('what is remembered is bounded; what is not done stays', () => {
  const state = open();
  for (let i = 0; i < 50; i++) state.add(found(`t-${i}`, BigInt(i) * 100n * S), { ...LIMITS, queueMax: 0 }, 1);
  const [first, ...others] = Array.from({ length: 50 }, (_, i) => state.findIncident(RECORDING, `t-${i}`)!.incidentId);
  for (const id of others) {
    state.setPin(id, 'set');
    state.setBundle(id, 'gone');
    state.leave(id);
  }
  state.forget(Date.now(), 10);
  expect(state.count().incidents).toBe(1);
  // A pin that was refused for a day makes room, too.
  state.leave(first!);
  state.setBundle(first!, 'gone');
  state.forget(1, 0);
  expect(state.getIncident(first!)).toMatchObject({ pin: 'due' });
  state.forget(Date.now(), 0);
  expect(state.count().incidents).toBe(0);
});

test('whatever is found in whatever order, a second look after a kill adds nothing', () => {
  const one = fc.record({
    rule: fc.constantFrom('a', 'b'),
    transactionId: fc.string({ minLength: 1, maxLength: 3 }),
    service: fc.constantFrom('shop', '', '../x\n'),
    atNs: fc.bigInt(0n, 200n * S),
  });
  const rate = fc.option(fc.record({ count: fc.integer({ min: 1, max: 4 }), withinNs: fc.bigInt(1n, 60n * S) }), {
    nil: undefined,
  });
  const limits = fc.record({
    atLeast: rate,
    atMost: rate,
    coolDownNs: fc.bigInt(0n, 60n * S),
    perMinuteMax: fc.integer({ min: 1, max: 20 }),
    queueMax: fc.integer({ min: 0, max: 5 }),
  });
  fc.assert(
    fc.property(fc.array(one, { maxLength: 20 }), limits, (all, limit) => {
      const folder = newFolder();
      const state = openWatchState(folder);
      const look = (opened: WatchState) =>
        all.flatMap((each) => opened.add({ ...each, recordingId: RECORDING }, limit, 1));
      look(state);
      const counts = state.count();
      expect(counts.deliveriesDue).toBeLessThanOrEqual(limit.queueMax);
      const ids = dueIds(state).sort();
      state.close();
      const again = openWatchState(folder);
      const known = all.filter(({ rule, transactionId }) => again.hasMatch(RECORDING, transactionId, rule));
      for (const each of known)
        expect(again.add({ ...each, recordingId: RECORDING }, { ...limit, atLeast: undefined }, 2)).toMatchObject([
          { outcome: 'known' },
        ]);
      expect([again.count(), dueIds(again).sort()]).toEqual([counts, ids]);
      again.close();
    }),
    { numRuns: times(10) },
  );
});

test('a second watcher, a foreign file and a damaged file are refused with what to do', () => {
  const folder = newFolder();
  open(folder);
  expect(() => openWatchState(folder)).toThrow('another kreplay watch uses');
  const foreign = newFolder();
  writeFileSync(join(foreign, STATE_FILE), 'not a database, but long enough to be taken for one by its length');
  expect(() => openWatchState(foreign)).toThrow(/damaged|not a file/);
  const closed = newFolder();
  writeFileSync(join(closed, 'file'), '');
  chmodSync(closed, 0o700);
  expect(() => openWatchState(join(closed, 'file'))).toThrow('check its folder');
});
