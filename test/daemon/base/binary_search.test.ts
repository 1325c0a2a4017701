/** Tests binary search against a look at every place. */
import fc from 'fast-check';
import {
  findFirstAbove,
  findFirstNotBelow,
  findFirstPlace,
  findFirstPlaceNear,
} from '../../../daemon/base/binary_search.ts';

const sorted = fc
  .array(fc.integer({ min: -20, max: 20 }), { maxLength: 40 })
  .map((all) => all.toSorted((a, b) => a - b));

/** The first place from `from` on with a value that `holds`; `to` without one. */
const looked = (values: readonly number[], from: number, to: number, holds: (value: number) => boolean) => {
  for (let place = from; place < to; place++) if (holds(values[place]!)) return place;
  return to;
};

test('the first place is that of a look at each, in any part of the values', () => {
  const part = sorted.chain((values) =>
    fc.tuple(fc.constant(values), fc.nat(values.length), fc.nat(values.length), fc.integer({ min: -22, max: 22 })),
  );
  fc.assert(
    fc.property(part, ([values, one, other, limit]) => {
      const [from, to] = [Math.min(one, other), Math.max(one, other)];
      const [notBelow, above] = [(value: number) => value >= limit, (value: number) => value > limit];
      const [first, firstLarger] = [notBelow, above].map((holds) => looked(values, from, to, holds));
      expect(findFirstNotBelow(values, limit, from, to)).toBe(first);
      expect(findFirstPlace(from, to, (place) => notBelow(values[place]!))).toBe(first);
      expect(findFirstPlaceNear(from, to, (place) => notBelow(values[place]!))).toBe(first);
      expect(findFirstAbove(values, limit, from, to)).toBe(firstLarger);
    }),
  );
});

test('a place that is near is found with few looks', () => {
  let looks = 0;
  const isFrom = (place: number) => {
    looks++;
    return place >= 1005;
  };
  expect(findFirstPlaceNear(1000, 1_000_000, isFrom)).toBe(1005);
  expect(looks).toBeLessThan(8);
});
