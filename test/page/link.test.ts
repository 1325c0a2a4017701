/** The page's state in an address: it survives the way through it, and what is wrong in one is said and left out. */
import fc from 'fast-check';
import { EMPTY_LINK, formatLink, formatProblems, type Link, parseLink, VIEWS } from '../../daemon/page/link/link.ts';

const someText = fc.string({ minLength: 1, maxLength: 60, unit: 'binary' }).filter((one) => one.isWellFormed());
const time = fc.bigInt({ min: 0n, max: 2n ** 63n - 2n });
const hex = fc.stringMatching(/^[0-9a-f]{32}$/);

/** A value that fits a field, by what a new page has there. */
function anyOf(name: string, empty: unknown): fc.Arbitrary<unknown> {
  if (name === 'view') return fc.constantFrom(...VIEWS);
  if (name === 'of') return fc.constantFrom(null, 'transactions', 'events');
  if (name === 'speed') return fc.constantFrom(null, 0.001, 0.5, 1, 12.345678, 1000);
  if (name === 'trace') return fc.option(hex);
  if (name === 'latency') return fc.option(fc.bigInt(0n, 3_600_000_000_000n));
  if (name === 'timeout') return fc.option(fc.bigInt(1n, 2n ** 63n - 1n));
  if (name === 'max_gap') return fc.option(fc.bigInt(0n, 2n ** 53n - 1n));
  if (name === 'session') return fc.option(fc.uuid());
  if (TEXT_FIELDS.includes(name)) return fc.option(someText);
  if (Array.isArray(empty)) return fc.uniqueArray(someText, { maxLength: 4 });
  return typeof empty === 'boolean' ? fc.boolean() : fc.option(time);
}

const TEXT_FIELDS = ['transaction', 'event', 'other'];
const PAIRS = [
  ['from', 'to'],
  ['box_from', 'box_to'],
  ['box_min', 'box_max'],
  ['zoom_from', 'zoom_to'],
  ['other_from', 'other_to'],
] as const;

const link = fc
  .record(Object.fromEntries(Object.entries(EMPTY_LINK).map(([name, empty]) => [name, anyOf(name, empty)])))
  .map((fields) => fields as unknown as Link)
  .filter((one) => PAIRS.every(([least, most]) => one[least] === null || one[most] === null || one[least] < one[most]))
  .filter(({ view, transaction, trace }) => view !== 'lanes' || transaction !== null || trace !== null);

test('a link that is written and read is the same', () => {
  fc.assert(
    fc.property(link, (given) => {
      expect(parseLink(formatLink(given))).toEqual({ link: given, problems: [] });
    }),
  );
});

test('no text makes it fail, and what it reads can be written and read again', () => {
  const part = fc.tuple(
    fc.constantFrom('__proto__', 'constructor', '', 'v', ...Object.keys(EMPTY_LINK)),
    fc.oneof(fc.string(), fc.constantFrom('1', 'lanes', '-1', '9'.repeat(30), '1e9', ' 5', '0x10')),
  );
  fc.assert(
    fc.property(fc.array(part), fc.string(), (parts, rest) => {
      const hash = `#${parts.map(([name, value]) => `${name}=${encodeURIComponent(value.toWellFormed())}`).join('&')}&${rest}`;
      const { link: read } = parseLink(hash);
      expect(parseLink(formatLink(read))).toEqual({ link: read, problems: [] });
    }),
  );
});

test.each([
  ['', []],
  ['#v=2', ['v: the link is of version 2, not 1']],
  ['#v=1&view=none', ['view: there is no view none']],
  ['#v=1&view=lanes', ['transaction: is missing, and the lanes are those of one, or of a trace']],
  ['#v=1&from=5&to=5', ['from: must be earlier than to']],
  ['#v=1&to=9223372036854775808', ['to: must be nanoseconds since the epoch, as digits']],
  ['#v=1&event=a&event=b', ['event: is given more than once']],
  ['#v=1&node=a&node=b', []],
  [`#v=1${'&node=a'.repeat(51)}`, ['node: has more than 50 values']],
  ['#v=1&trace=xyz', ['trace: must be 32 hexadecimal digits']],
  ['#v=1&speed=1e9', ['speed: must be from 0.001 to 1000']],
  ['#v=1&box_min=7&box_max=6', ['box_min: must be no longer than box_max']],
  ['#v=1&box_min=7&box_max=7', []],
  ['#v=1&of=both', ['of: must be transactions or events']],
  ['#v=1&table=yes', ['table: must be 1']],
  [`#v=1&transaction=${'x'.repeat(2000)}`, ['transaction: is too long']],
  ['#v=1&toString=1', ['toString: is not known']],
  ['#v=1&latency=3600000000001', ['latency: must be from 0 to 3600000000000']],
  ['#v=1&timeout=0', ['timeout: must be from 1 to 9223372036854775807']],
  ['#v=1&max_gap=9007199254740992', ['max_gap: must be from 0 to 9007199254740991']],
])('%s: what is wrong is named', (hash, problems) => {
  expect(parseLink(hash).problems).toEqual(problems);
});

test('of many faults the first are named, and the rest are counted', () => {
  const { problems } = parseLink(`#v=1${Array.from({ length: 3000 }, (_, i) => `&k${i}=1`).join('')}`);
  expect(formatProblems(problems.slice(0, 5))).toMatch(/^k0: is not known; .*; k4: is not known$/);
  expect(formatProblems(problems)).toMatch(/^k0: is not known; .*; k4: is not known; and 2 995 more$/);
});

test('a link that names nothing but a trace opens its lanes', () => {
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
  expect(parseLink(`#trace=${trace}`)).toEqual({ link: { ...EMPTY_LINK, view: 'lanes', trace }, problems: [] });
  expect(parseLink(`#trace=${trace.toUpperCase()}`)).toEqual(parseLink(`#trace=${trace}`));
  expect(parseLink(`#trace=${trace}&view=health`).link.view).toBe('health');
  expect(parseLink('#trace=xyz').link.view).toBe('overview');
  expect(parseLink('#trace=').link.view).toBe('overview');
});

test('a new page has an address without anything', () => {
  expect(formatLink(EMPTY_LINK)).toBe('');
});
