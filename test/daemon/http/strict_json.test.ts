/**
 * Tests what JSON.parse accepts and a request must not contain, against plain objects; and bodies made to be slow to
 * parse.
 */
import fc from 'fast-check';
import { Problem } from '../../../daemon/base/problem.ts';
import { parseStrictly } from '../../../daemon/http/body.ts';
import { recorded, START } from '../recorded.ts';
import { served } from '../served.ts';

const BODY_BYTES = 64 * 1024;
const filled = (start: string, chunk: string, end = '') =>
  start + chunk.repeat(Math.floor((BODY_BYTES - start.length - end.length) / chunk.length)) + end;

/** Bodies of the greatest size allowed, each the worst case of one way to parse. */
const SLOW: [name: string, body: string][] = [
  ['a string without an end, full of escaped quotes', filled('"', '\\"')],
  ['quotes', filled('', '"')],
  ['strings without an end in a list', filled('[', '"\\", ')],
  ['escaped backslashes', filled('"', '\\\\')],
  ['a name without an end', filled('{"', '\\"')],
  ['an escaped quote in a string that ends', filled('"', '\\"', '"')],
  ['zeros before a last digit', filled('1.', '0', '1')],
  ['zeros of an integer that is not exact', filled('1', '0', '1e-65530')],
  ['brackets', filled('', '[')],
  ['names', `{${Array.from({ length: 6000 }, (_, i) => `"n${i}":0`).join(',')}}`],
];

test.each(SLOW)('%s: a body is refused in less than a second of CPU time', async (_name, body) => {
  const { port: _port, get } = await served(recorded([{ at: START, transaction: 'tx' }]));
  const start = process.cpuUsage();
  const headers = { 'content-type': 'application/json' };
  const { status } = await get('/api/replay/sessions', { method: 'POST', headers, body });
  expect(status).toBe(400);
  const { user, system } = process.cpuUsage(start);
  expect((user + system) / 1000).toBeLessThan(1000);
});

/** The same text in JSON, with random characters escaped. */
const written = (text: string) =>
  fc.array(fc.boolean(), { minLength: text.length, maxLength: text.length }).map((escapes) => {
    const units = Array.from({ length: text.length }, (_, at) => {
      const escaped = `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`;
      return escapes[at] ? escaped : JSON.stringify(text[at]).slice(1, -1);
    });
    return `"${units.join('')}"`;
  });
const text = fc.oneof(fc.string(), fc.constantFrom('a', 'b', '__proto__', '"', '\\', '{', '}', ',', '":', '\\"'));
const jsonText = text.chain(written);

interface Made {
  json: string;
  /** An object in it has a name twice, or has the name `__proto__`. */
  isBad: boolean;
}

const { tree } = fc.letrec<{ tree: Made; list: Made; object: Made; leaf: Made }>((tie) => ({
  tree: fc.oneof({ maxDepth: 5 }, tie('leaf'), tie('list'), tie('object')),
  leaf: fc.oneof(jsonText, fc.integer().map(String), fc.constantFrom('true', 'null')).map((json) => ({
    json,
    isBad: false,
  })),
  list: fc.array(tie('tree'), { maxLength: 4 }).map((items) => ({
    json: `[ ${items.map(({ json }) => json).join(' ,')}]`,
    isBad: items.some(({ isBad }) => isBad),
  })),
  object: fc.array(fc.tuple(jsonText, tie('tree')), { maxLength: 4 }).map((fields) => {
    const names = fields.map(([name]) => JSON.parse(name) as string);
    const isBad = new Set(names).size < names.length || names.includes('__proto__');
    return {
      json: `{${fields.map(([name, { json }]) => `${name} :${json}`).join(', ')}}`,
      isBad: isBad || fields.some(([, value]) => value.isBad),
    };
  }),
}));

test('duplicate names and __proto__ are refused at any depth, and nothing else is', () => {
  fc.assert(
    fc.property(tree, ({ json, isBad }) => {
      if (isBad) expect(() => parseStrictly(json)).toThrow(Problem);
      else expect(parseStrictly(json)).toEqual(JSON.parse(json));
    }),
    { numRuns: 2000 },
  );
});

test('any text is read as by JSON.parse, or refused', () => {
  const noise = fc.array(fc.constantFrom('"', '\\', '{', '}', '[', ']', ',', ':', '0', 'a', ' ', '\\"', 'null'));
  fc.assert(
    fc.property(
      noise.map((chunks) => chunks.join('')),
      (json) => {
        let known: unknown;
        try {
          known = JSON.parse(json);
        } catch {
          expect(() => parseStrictly(json)).toThrow(SyntaxError);
          return;
        }
        try {
          expect(parseStrictly(json)).toEqual(known);
        } catch (error) {
          expect(error).toMatchObject({ code: 'invalid_body' });
        }
      },
    ),
    { numRuns: 5000 },
  );
});

test.each([
  [64, undefined],
  [65, 'malformed_json'],
  [30_000, 'malformed_json'],
])('a list of %i levels: %s', (levels, code) => {
  const read = () => parseStrictly('['.repeat(levels) + ']'.repeat(levels));
  if (code === undefined) expect(read).not.toThrow();
  else expect(read).toThrow(expect.objectContaining({ code }));
});
