/** The page's state in an address: it survives the way through it, and what is wrong in one is said and left out. */
import fc from 'fast-check';
import { EMPTY_LINK, formatLink, type Link, parseLink, VIEWS } from '../../daemon/page/link/link.ts';

const text = fc.option(fc.string({ minLength: 1, maxLength: 60, unit: 'binary' }).filter((one) => one.isWellFormed()));
const time = fc.bigInt({ min: 0n, max: 2n ** 63n - 2n });

const link: fc.Arbitrary<Link> = fc
  .record({
    view: fc.constantFrom(...VIEWS),
    transaction: text,
    service: text,
    node: text,
    has_error: fc.boolean(),
    from: fc.option(time),
    to: fc.option(time),
    event: text,
    session: text,
    table: fc.boolean(),
  })
  .filter(({ from, to }) => from === null || to === null || from < to)
  .filter(({ view, transaction }) => view !== 'lanes' || transaction !== null);

test('a link that is written and read is the same', () => {
  fc.assert(
    fc.property(link, (given) => {
      expect(parseLink(formatLink(given))).toEqual({ link: given, problems: [] });
    }),
  );
});

test('no text makes it fail, and what it reads can be written and read again', () => {
  const part = fc.tuple(
    fc.constantFrom('v', 'view', 'transaction', 'from', 'to', 'table', 'event', '__proto__', 'constructor', ''),
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
  ['#v=1&view=lanes', ['transaction: is missing, and the lanes are those of one']],
  ['#v=1&from=5&to=5', ['from: must be earlier than to']],
  ['#v=1&to=9223372036854775808', ['to: must be nanoseconds since the epoch, as digits']],
  ['#v=1&node=a&node=b', ['node: is given more than once']],
  ['#v=1&table=yes', ['table: must be 1']],
  [`#v=1&transaction=${'x'.repeat(2000)}`, ['transaction: is too long']],
  ['#v=1&toString=1', ['toString: is not known']],
])('%s: what is wrong is named', (hash, problems) => {
  expect(parseLink(hash).problems).toEqual(problems);
});

test('a new page has an address without anything', () => {
  expect(formatLink(EMPTY_LINK)).toBe('');
});
