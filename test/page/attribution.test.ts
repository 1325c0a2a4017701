/** How an owner is known, in words, for everything that a recording can have. */
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../bpf/schema/owner.ts';
import { describeAttribution } from '../../daemon/page/lanes/attribution.ts';

const textOf = (source: string, quality: string) =>
  describeAttribution({ transactionId: 'order-1', source, quality, queuedBy: null });

test('every source and quality has words, and only shared and ambiguous owners are doubtful', () => {
  const named = ATTRIBUTION_SOURCES.filter((source) => source !== 'none');
  for (const source of named)
    for (const quality of ATTRIBUTION_QUALITIES) {
      const text = textOf(source, quality);
      expect(text.source).toMatch(
        /^Its owner is known by (?:a|the|TRACEPARENT) .{10,}\.$|^Its owner .*TRACEPARENT.*\.$/,
      );
      expect(text.quality).toMatch(new RegExp(`^It is ${quality}: .{10,}\\.$`));
      expect(`${text.source}${text.quality}`).not.toContain('`');
      expect(text.isDoubtful).toBe(quality === 'shared' || quality === 'ambiguous');
    }
  expect(new Set(named.map((source) => textOf(source, 'exact').source)).size).toBe(named.length);
});

test('an event without an owner is said to have none', () => {
  const none = 'No owner is known: nothing named an owner, or what named it was lost.';
  expect(textOf('none', 'none')).toEqual({ source: none, quality: null, isDoubtful: false });
});

test('words of a newer daemon stand for themselves', () => {
  const text = { source: 'Its owner is known by baggage.', quality: 'It is guessed.', isDoubtful: false };
  expect(textOf('baggage', 'guessed')).toEqual(text);
  expect(textOf('constructor', '__proto__').source).toBe('Its owner is known by constructor.');
});
