/** Filters that are typed: each way to write one gives the same link, and nothing else is accepted. */
import fc from 'fast-check';
import { filterText, readFilters } from '../../daemon/page/link/filter_text.ts';
import { listFilters } from '../../daemon/page/link/filters.ts';
import { EMPTY_LINK, FILTERED } from '../../daemon/page/link/link.ts';

const NOW = 1_700_000_000_000_000_000n;
const read = (text: string) => readFilters(text, EMPTY_LINK, NOW);

test('whatever a value is, it is read as it was written', () => {
  const filter = fc.record({
    name: fc.constantFrom(...FILTERED.flatMap((name) => [name, `exclude_${name}` as const])),
    value: fc.string({ minLength: 1, unit: 'binary' }),
  });
  fc.assert(
    fc.property(filter, filter, (one, other) => {
      const { change, problems } = read(`${filterText(one.name, one.value)}  ${filterText(other.name, other.value)} `);
      expect(problems).toEqual([]);
      const found = listFilters({ ...EMPTY_LINK, ...change });
      // A value cannot be both kept and excluded: the later word counts.
      const isOpposite = one.name !== other.name && one.name.endsWith(other.name.replace('exclude_', ''));
      const isReplaced = isOpposite && one.value === other.value && bare(one.name) === bare(other.name);
      expect(found).toEqual(expect.arrayContaining(isReplaced ? [other] : [one, other]));
    }),
  );
});

const bare = (name: string) => name.replace('exclude_', '');

test('any text is read, or says what is wrong and changes nothing', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('a', ':', '"', '\\', ' ', '-', 'from', 'service') }), (text) => {
      const { change, problems } = read(text);
      if (problems.length > 0) expect(change).toEqual({});
    }),
  );
});

test.each([
  ['service:shop', { service: ['shop'], exclude_service: [] }],
  ['-service:shop', { service: [], exclude_service: ['shop'] }],
  ['-exclude_service:shop', { service: ['shop'], exclude_service: [] }],
  ['file:"/srv/a b/*"', { file: ['/srv/a b/*'], exclude_file: [] }],
  ['device:a:b', { device: ['a:b'], exclude_device: [] }],
  ['from:-15m has_error:true', { from: NOW - 900_000_000_000n, has_error: true }],
  ['from:2023-11-14T22:13:20.000000001Z', { from: NOW + 1n }],
  ['to:9007199254740993', { to: 9007199254740993n }],
])('%s is read', (text, change) => {
  expect(read(text)).toEqual({ change, problems: [] });
});

test.each([
  ['shop', /^shop: must be name:value/],
  ['colour:red', /^colour: is not known; known are service/],
  ['service:', /^service: has no value/],
  ['from:soon', /^from: must be RFC 3339/],
  ['has_error:1', /^has_error: must be true or false/],
  ['-has_error:true', /^has_error: cannot be excluded/],
  ['-from:7', /^from: cannot be excluded/],
  ['from:7 to:7', /^from: must be earlier than to/],
  ['__proto__:1', /^__proto__: is not known/],
])('%s is refused in words', (text, problem) => {
  expect(read(text).problems.join()).toMatch(problem);
});
