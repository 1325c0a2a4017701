/** Tests whose calls the sums of the kernel side are: none is given to an owner that it may not be of, or lost. */
import fc from 'fast-check';
import { createShedOwners, type ShedSum } from '../../../agent/capture/shed_sums.ts';
import { CONTEXT_FLAGS, CONTEXT_LOST } from '../../../bpf/schema/common.ts';

const PROCESSES = new Map([
  [1, { id: 1, service: 'shop', own: false, isNamedByRule: false, isWanted: true }],
  [2, { id: 2, service: 'ruled', own: false, isNamedByRule: true, isWanted: true }],
  [3, { id: 3, service: 'agent', own: true, isNamedByRule: false, isWanted: true }],
  [4, { id: 4, service: 'left-out', own: false, isNamedByRule: false, isWanted: false }],
]);
const UNKNOWN = { id: 0, service: 'unknown', own: false, isNamedByRule: false, isWanted: true };

interface Names {
  ids: { transactionId: string | null; traceId: null; spanId: null } | undefined;
  service: string | null;
}

const named = (transactionId: string | null, service: string | null): Names => ({
  ids: { transactionId, traceId: null, spanId: null },
  service,
});
/** 12 ended at 500. */
const CONTEXTS = new Map([
  [10, named('order', null)],
  [11, named('order', 'labelled')],
  [12, named('ended', null)],
  [13, named(null, null)],
  [14, named('wanted', 'wanted')],
]);
const BY_REFERENCE = CONTEXT_FLAGS.CONTEXT_INHERITED_THREAD;

const contexts = {
  findNames: (id: number, flags: number, startNs: number) =>
    id === 12 && flags & BY_REFERENCE && startNs >= 500 ? undefined : CONTEXTS.get(id),
  isForgotten: (id: number, flags: number) => id !== 0 && !(flags & BY_REFERENCE) && !CONTEXTS.has(id),
};

const newOwners = () =>
  createShedOwners({
    contexts,
    processes: { get: (id) => (PROCESSES.get(id) ?? UNKNOWN) as never },
    isWanted: (process, labelled) => (labelled ? labelled !== 'labelled-out' : process.isWanted),
  });

const sum = (processId: number, contextId: number, more: Partial<ShedSum> = {}): ShedSum => ({
  ...{ processId, contextId, contextFlags: 0, eventType: 'sys_write', count: 2 },
  ...{ bytes: 20n, durationNs: 8n, longestNs: 5n, firstNs: 100, lastNs: 200 },
  ...more,
});

const ownerOf = (one: ShedSum) => {
  const owners = newOwners();
  owners.count('sys_write', one.count, 50);
  const [found, ...more] = owners.take([one], 1000);
  expect(more).toEqual([]);
  if (!found) return undefined;
  const [part] = found.parts ?? [];
  if (part) expect(part[1]).toEqual({ ...part[1], count: found.count, sums: found.sums });
  return [found.service, found.parts ? (part?.[0] ?? null) : undefined];
};

test.each<[string, ShedSum, unknown]>([
  ['a label names the transaction', sum(1, 10), ['shop', 'order']],
  ['a label names the service', sum(1, 11), ['labelled', 'order']],
  ['a rule names the service', sum(2, 11), ['ruled', 'order']],
  ['no label', sum(1, 0), ['shop', null]],
  ['a label without a transaction', sum(1, 13), ['shop', null]],
  ['an unknown process', sum(9, 0), [undefined, null]],
  ['a lost label', sum(1, CONTEXT_LOST), [undefined, undefined]],
  ['a label that is no longer known', sum(1, 99), [undefined, undefined]],
  ['a request that ended long ago', sum(1, 99, { contextFlags: BY_REFERENCE }), ['shop', null]],
  ['a request under way', sum(1, 12, { contextFlags: BY_REFERENCE }), ['shop', 'ended']],
  ['a request that had ended', sum(1, 12, { contextFlags: BY_REFERENCE, firstNs: 500, lastNs: 600 }), ['shop', null]],
  ['a request that ended between', sum(1, 12, { contextFlags: BY_REFERENCE, lastNs: 500 }), [undefined, undefined]],
  ["the agent's own calls", sum(3, 0), undefined],
  ['calls that the filter leaves out', sum(4, 0), undefined],
  ['calls whose label the filter wants', sum(4, 14), ['wanted', 'wanted']],
])('%s', (_, one, owner) => {
  expect(ownerOf(one)).toEqual(owner);
});

test('sums of one service, and of one transaction, are added up', () => {
  const owners = newOwners();
  owners.count('sys_write', 6, 50);
  const more = { bytes: 1n, durationNs: 9n, longestNs: 9n, firstNs: 90, lastNs: 150 };
  const order = { eventType: 'sys_write', count: 4, fromNs: 90, toNs: 205 };
  expect(owners.take([sum(1, 10), sum(1, 10, { contextFlags: 64, ...more }), sum(1, 0)], 1000)).toEqual([
    {
      ...{ service: 'shop', eventType: 'sys_write', count: 6, fromNs: 90, toNs: 205 },
      sums: { bytes: 41n, durationNs: 25n, longestNs: 9n },
      parts: new Map([['order', { ...order, sums: { bytes: 21n, durationNs: 17n, longestNs: 9n } }]]),
    },
  ]);
});

test('each counted call is returned once: with its owner, or without if it is in no sum', () => {
  // A call is added to a sum before it is counted; the counts are read before the sums.
  const step = fc.record({
    made: fc.nat(5),
    unsummed: fc.nat(3),
    uncounted: fc.nat(2),
    isTaken: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const owners = newOwners();
      let [counted, waiting, late, all, unsummedAll] = [0, 0, 0, 0, 0];
      let [owned, unowned] = [0, 0];
      const take = (sums: ShedSum[]) => {
        for (const { service, count } of owners.take(sums, 1000)) {
          if (service === undefined) unowned += count;
          else owned += count;
        }
      };
      for (const { made, unsummed, uncounted, isTaken } of steps) {
        all += made + unsummed;
        unsummedAll += unsummed;
        waiting += made;
        const hidden = Math.min(uncounted, made);
        counted = made - hidden + unsummed + late;
        late = hidden;
        if (counted > 0) owners.count('sys_write', counted, 50);
        if (!isTaken || !owners.hasCounted()) continue;
        take(waiting > 0 ? [sum(1, 0, { count: waiting })] : []);
        waiting = 0;
        // Until they are counted, calls of a sum can hide as many calls that are in none.
        expect(owned + unowned).toBeLessThanOrEqual(all);
        expect(owned + unowned).toBeGreaterThanOrEqual(all - unsummedAll);
      }
      if (late > 0) owners.count('sys_write', late, 50);
      take(waiting > 0 ? [sum(1, 0, { count: waiting })] : []);
      expect([owned, unowned]).toEqual([all - unsummedAll, unsummedAll]);
      expect(owners.hasCounted()).toBe(false);
    }),
  );
});
