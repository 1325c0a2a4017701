/** The programs that see ends are attached before those that see beginnings, however the object has them. */
import { join } from 'node:path';
import { BpfObject } from 'libbpf-ts';
import { ENDS_FIRST, orderToAttach } from '../../../agent/capture/attach_order.ts';

const ROOT = join(import.meta.dirname, '../../..');

function programsOf(variant: string): string[] {
  using object = BpfObject.open(join(ROOT, `build/bpf/${variant}.bpf.o`));
  return object.programs.map(({ name }) => name);
}

test.each(['kreplay', 'kreplay_cast'])(
  'each end of %s comes before its beginning, in any order of programs',
  (variant) => {
    const programs = programsOf(variant);
    for (const given of [programs, programs.toReversed()]) {
      const order = orderToAttach(given);
      expect(order.toSorted()).toEqual(programs.toSorted());
      for (const [end, beginning] of ENDS_FIRST) {
        expect(order).toContain(end);
        expect(order.indexOf(beginning)).toBeGreaterThan(order.indexOf(end));
      }
    }
  },
);

test.each([
  ['_enter', '_exit'],
  ['_start', '_end'],
  ['_issue', '_complete'],
])('each program whose name ends with %s is listed with its %s', (beginning, end) => {
  const programs = programsOf('kreplay');
  const pairs = programs
    .filter((name) => name.endsWith(beginning))
    .map((name) => [name.replace(beginning, end), name])
    .filter(([name]) => programs.includes(name!));
  expect(pairs).not.toEqual([]);
  expect(ENDS_FIRST).toEqual(expect.arrayContaining(pairs));
});

test('the object has its programs in an order that can stay', () => {
  const programs = programsOf('kreplay');
  expect(orderToAttach(programs)).toEqual(programs);
});

test('an end whose program is not loaded is left out', () => {
  expect(orderToAttach(['call_enter', 'call_exit', 'task_new'])).toEqual(['call_exit', 'call_enter', 'task_new']);
});
