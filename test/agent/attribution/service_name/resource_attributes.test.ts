/** Tests OTEL_RESOURCE_ATTRIBUTES: what is used, and that one malformed part discards all of it. */
import fc from 'fast-check';
import { parseResourceAttributes } from '../../../../agent/attribution/service_name/service_name.ts';

test.each<[string, string, Record<string, string>]>([
  ['one pair', 'service.name=shop', { 'service.name': 'shop' }],
  ['two pairs', 'service.name=shop,service.version=1.4', { 'service.name': 'shop', 'service.version': '1.4' }],
  ['blanks around', ' service.name = shop , a\t=\tb ', { 'service.name': 'shop', a: 'b' }],
  ['a blank inside', 'service.name=web shop', { 'service.name': 'web shop' }],
  ['encoded', 'service.name=web%20shop%2C%20a%3Db', { 'service.name': 'web shop, a=b' }],
  ['an encoded key', 'a%2Cb=c', { 'a,b': 'c' }],
  ['encoded UTF-8', 'service.name=caf%C3%A9', { 'service.name': 'café' }],
  ['UTF-8 as it is', 'service.name=café', { 'service.name': 'café' }],
  ['a plus sign', 'service.name=a+b', { 'service.name': 'a+b' }],
  ['a semicolon', 'service.name=a;b', { 'service.name': 'a;b' }],
  ['an equals sign in a value', 'url=http://a?b=c', { url: 'http://a?b=c' }],
  ['an empty value', 'service.name=,a=b', { 'service.name': '', a: 'b' }],
  ['a key of every object', '__proto__=a', Object.fromEntries([['__proto__', 'a']])],
  ['a repeated key: the last', 'a=1,a=2', { a: '2' }],
  ['nothing', '', {}],
  ['blanks', ' \t', {}],
])('%s', (_, text, attributes) => {
  expect([...parseResourceAttributes(text)!]).toEqual(Object.entries(attributes));
});

test.each([
  ['no equals sign', 'service.version'],
  ['no key', '=a'],
  ['a blank for a key', ' =a'],
  ['an empty pair', ''],
  ['a percent sign by itself', 'a=100%'],
  ['one hex digit', 'a=%2'],
  ['no hex digits', 'a=%zz'],
  ['bytes that are not UTF-8', 'a=%ff'],
  ['half of a surrogate pair', 'a=%ed%a0%80'],
  ['a malformed key', '%=a'],
])('%s discards the whole variable, wherever it is', (_, pair) => {
  expect(parseResourceAttributes(`service.name=shop,${pair}`)).toBeNull();
  expect(parseResourceAttributes(`${pair},service.name=shop`)).toBeNull();
});

test('any text is parsed or refused', () => {
  const part = fc.oneof(fc.constantFrom(',', '=', '%', '%41', ' ', 'service.name'), fc.string({ unit: 'binary' }));
  fc.assert(
    fc.property(fc.array(part), (parts) => {
      const attributes = parseResourceAttributes(parts.join(''));
      expect(attributes === null || !attributes.has('')).toBe(true);
    }),
  );
});

test('decoding reverses encoding', () => {
  const text = fc.string({ unit: 'grapheme' });
  fc.assert(
    fc.property(
      fc.array(
        fc.tuple(
          text.filter((key) => key !== ''),
          text,
        ),
      ),
      (pairs) => {
        const encoded = pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join(',');
        expect(parseResourceAttributes(encoded)).toEqual(new Map(pairs));
      },
    ),
  );
});
