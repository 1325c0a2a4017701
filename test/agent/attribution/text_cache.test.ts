/** Tests that the cache gives the same id as plain decoding, also for texts that share a slot and for odd names. */
import fc from 'fast-check';
import { createTextCache } from '../../../agent/attribution/fill.ts';
import { createNames } from './names.ts';

/** More distinct texts than slots, so that most of them collide. */
const MANY = 3000;

function wordsOf(texts: readonly Uint8Array[], size: number): Uint32Array {
  const bytes = new Uint8Array(texts.length * size);
  texts.forEach((text, i) => {
    bytes.set(text.subarray(0, size), i * size);
  });
  return new Uint32Array(bytes.buffer);
}

function plain(text: Uint8Array, size: number): string {
  const [name] = Buffer.from(text.subarray(0, size)).toString('latin1').split('\0', 1);
  return Buffer.from(name!, 'latin1').toString('utf8');
}

const OLDEST = { name: 1 };

test('any bytes get the index of their text', () => {
  const text = fc.oneof(
    fc.uint8Array({ maxLength: 40 }),
    fc.string({ unit: 'binary', maxLength: 12 }).map((name) => new TextEncoder().encode(name)),
    fc.constantFrom('dd', 'dd\0stale', 'postgres: writer', '').map((name) => new TextEncoder().encode(name)),
  );
  fc.assert(
    fc.property(fc.constantFrom(16, 32), fc.array(text, { maxLength: 60 }), (size, texts) => {
      const names = createNames();
      const cache = createTextCache(size, names.intern, OLDEST);
      const words = wordsOf(texts, size);
      texts.forEach((bytes, i) => {
        expect(cache.internText(words, i * size)).toBe(names.intern(plain(bytes, size)));
      });
    }),
  );
});

test('texts that evict each other from their slot keep their indexes', () => {
  const ids = new Map<string, number>();
  const intern = (text: string) => ids.get(text) ?? ids.set(text, ids.size + 1).size;
  const cache = createTextCache(16, intern, OLDEST);
  const texts = Array.from({ length: MANY }, (_, i) => `worker-${i}`);
  const words = wordsOf(
    texts.map((text) => new TextEncoder().encode(text)),
    16,
  );
  for (const turn of [1, 2, 3]) {
    const wrong = texts.filter((text, i) => cache.internText(words, i * 16) !== intern(text));
    expect({ turn, wrong }).toEqual({ turn, wrong: [] });
  }
  expect(ids.size).toBe(MANY);
});

test('a known text is not decoded again', () => {
  const seen: string[] = [];
  const cache = createTextCache(16, (text) => seen.push(text), OLDEST);
  const words = wordsOf([new TextEncoder().encode('dd')], 16);
  expect([cache.internText(words, 0), cache.internText(words, 0)]).toEqual([1, 1]);
  expect(seen).toEqual(['dd']);
});

test('an index that the recording has dropped is requested again', () => {
  const oldest = { name: 1 };
  let next = 1;
  const cache = createTextCache(16, () => next++, oldest);
  const words = wordsOf([new TextEncoder().encode('dd')], 16);
  expect([cache.internText(words, 0), cache.internText(words, 0)]).toEqual([1, 1]);
  oldest.name = 2;
  expect([cache.internText(words, 0), cache.internText(words, 0)]).toEqual([2, 2]);
});

test('an index that was not available is requested again', () => {
  const answers = [0, 7];
  const cache = createTextCache(16, () => answers.shift()!, OLDEST);
  const words = wordsOf([new TextEncoder().encode('dd')], 16);
  expect([cache.internText(words, 0), cache.internText(words, 0), cache.internText(words, 0)]).toEqual([0, 7, 7]);
});

test('a text that has no index yet does not get that of another text', () => {
  const ids = new Map<string, number>();
  let failing = false;
  const cache = createTextCache(
    16,
    (text) => {
      if (failing) throw new Error('no number');
      return ids.get(text) ?? ids.set(text, ids.size + 1).size;
    },
    OLDEST,
  );
  const texts = Array.from({ length: MANY }, (_, i) => `worker-${i}`);
  const words = wordsOf(
    texts.map((text) => new TextEncoder().encode(text)),
    16,
  );
  for (let i = 0; i < MANY / 2; i++) cache.internText(words, i * 16);
  failing = true;
  for (let i = MANY / 2; i < MANY; i++) expect(() => cache.internText(words, i * 16)).toThrow('no number');
  failing = false;
  expect(texts.filter((text, i) => cache.internText(words, i * 16) !== ids.get(text))).toEqual([]);
});
