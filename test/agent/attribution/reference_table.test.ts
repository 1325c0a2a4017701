/**
 * Tests the table of definitions against a plain model: whatever is set, read and evicted, an id never gives another's
 * value.
 */
import fc from 'fast-check';
import { createReferenceTable } from '../../../agent/attribution/reference_table.ts';

/** Keeps ids in the order of their last use. When it is full, the older half is evicted. */
function createModel(capacity: number) {
  let used: { id: number; value: string }[] = [];
  const take = (id: number) => {
    const entry = used.find((other) => other.id === id);
    used = used.filter((other) => other.id !== id);
    return entry;
  };
  return {
    set(id: number, value: string) {
      if (used.length >= capacity) used = used.slice((used.length >> 1) + 1);
      take(id);
      used.push({ id, value });
    },
    get(id: number) {
      const entry = take(id);
      if (entry) used.push(entry);
      return entry?.value;
    },
    get size() {
      return used.length;
    },
  };
}

/**
 * Ids as the kernel side makes them: a count above a CPU. Counts that are 1024 apart collide in the cache of last
 * entries.
 */
const ids = fc.oneof(
  fc.nat(12),
  fc.tuple(fc.nat(3), fc.nat(2), fc.nat(1)).map(([step, count, cpu]) => (step * 2 ** 38 + count * 1024) * 4096 + cpu),
);
const command = fc.record({ kind: fc.constantFrom('set', 'get', 'get'), id: ids });

test('every lookup agrees with a simple model, and the table stays within its capacity', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), fc.array(command, { maxLength: 120 }), (capacity, commands) => {
      const table = createReferenceTable<string>(capacity);
      const model = createModel(capacity);
      commands.forEach(({ kind, id }, i) => {
        if (kind === 'set') {
          table.set(id, `value ${i}`);
          model.set(id, `value ${i}`);
        } else expect(table.get(id)).toBe(model.get(id));
        expect(table.size).toBe(model.size);
        expect(table.size).toBeLessThanOrEqual(capacity);
      });
    }),
    { numRuns: 500 },
  );
});

test('a user that stays within its share loses nothing, whatever the others define', () => {
  const commands = fc.array(fc.record({ user: fc.integer({ min: 1, max: 3 }), reads: fc.nat(40) }), { maxLength: 400 });
  fc.assert(
    fc.property(fc.integer({ min: 16, max: 40 }), commands, (capacity, defined) => {
      const table = createReferenceTable<string>(capacity);
      const share = Math.floor(((capacity - 1) >> 1) / 4);
      for (let id = 0; id < share; id++) table.set(id, `own ${id}`, 0);
      defined.forEach(({ user, reads }, i) => {
        table.set(1000 + i, `of ${user}`, user);
        table.get(1000 + reads);
        expect(table.size).toBeLessThanOrEqual(capacity);
      });
      const own = Array.from({ length: share }, (_, id) => table.get(id));
      expect(own).toEqual(own.map((_, id) => `own ${id}`));
    }),
  );
});

test('of a user that defines too much, the most recently used entries are kept', () => {
  const table = createReferenceTable<string>(16);
  for (let id = 0; id < 3; id++) table.set(id, 'quiet', 1);
  for (let id = 100; id < 113; id++) table.set(id, 'loud', 2);
  table.get(100);
  table.set(113, 'loud', 2);
  const kept = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, i) => from + i).filter((id) => table.get(id) !== undefined);
  expect([kept(0, 3), kept(100, 114)]).toEqual([
    [0, 1, 2],
    [100, 110, 111, 112, 113],
  ]);
});

test('the most recently used entries are kept, and the least recently used are dropped', () => {
  const table = createReferenceTable<number>(8);
  for (let id = 0; id < 8; id++) table.set(id, id);
  for (const id of [0, 1, 2]) table.get(id);
  table.set(8, 8);
  expect([0, 1, 2, 8].map(table.get)).toEqual([0, 1, 2, 8]);
  expect([3, 4, 5, 6].map(table.get)).toEqual([undefined, undefined, undefined, undefined]);
});

test.each([
  ['another value', (table: ReturnType<typeof createReferenceTable<string>>) => table.set(1, 'new'), 'new'],
  ['an overflow', (table: ReturnType<typeof createReferenceTable<string>>) => fill(table), undefined],
])('a lookup after %s does not return the cached entry', (_, change, expected) => {
  const table = createReferenceTable<string>(4);
  table.set(1, 'old');
  expect(table.get(1)).toBe('old');
  change(table);
  expect(table.get(1)).toBe(expected);
});

test('an id that was looked up before its definition is found afterwards', () => {
  const table = createReferenceTable<string>(4);
  expect(table.get(1)).toBeUndefined();
  table.set(1, 'defined');
  expect(table.get(1)).toBe('defined');
});

function fill(table: ReturnType<typeof createReferenceTable<string>>): void {
  for (let id = 100; id < 108; id++) table.set(id, '');
}
