/** Tests the rules file: what it may have, and that every mistake is reported with its place. */
import fc from 'fast-check';
import { ConfigError } from '../../../agent/process/errors.ts';
import { parseRules, RULES_MAX } from '../../../daemon/watch/rules.ts';
import { times } from '../../repeats.ts';

const parse = (...lines: string[]) => parseRules('watch.toml', lines.join('\n'));

function problemsOf(...lines: string[]): string[] {
  try {
    parse(...lines);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message.split('\n');
  }
  return [];
}

test('a rule has its conditions, rates and cool-down; the webhook has its files', () => {
  const { rules, webhook } = parse(
    '[[rule]]',
    'name = "slow-orders"',
    'service = ["shop", "till"]',
    'min-duration = "500ms"',
    'at-most = "10 in 1h"',
    'cool-down = "5m"',
    '[[rule]]',
    'name = "full"',
    'service = "shop"',
    'min-event-duration = "1.5s"',
    'failed = true',
    'error = ["ENOSPC"]',
    'at-least = "5 in 1m"',
    '[webhook]',
    'url = "https://hooks.example/a?b=c"',
    'secret-file = "s"',
    'ca-file = "ca.pem"',
    'timeout = "2s"',
  );
  expect(rules).toEqual([
    {
      name: 'slow-orders',
      services: ['shop', 'till'],
      minDurationNs: 500_000_000n,
      atMost: { count: 10, withinNs: 3_600_000_000_000n },
      coolDownNs: 300_000_000_000n,
    },
    {
      name: 'full',
      services: ['shop'],
      minEventNs: 1_500_000_000n,
      failed: true,
      results: [-28n],
      atLeast: { count: 5, withinNs: 60_000_000_000n },
      coolDownNs: 0n,
    },
  ]);
  expect(webhook).toMatchObject({ secretFile: 's', caFile: 'ca.pem', timeoutMs: 2000 });
  expect(webhook!.url.href).toBe('https://hooks.example/a?b=c');
  expect(parse('')).toEqual({ rules: [] });
});

test('every mistake is reported in one go, with its place', () => {
  expect(
    problemsOf(
      '[[rule]]',
      'name = "../../x"',
      'min-duraton = "1s"',
      'at-least = "5000 in 1m"',
      '[[rule]]',
      'service = []',
      '[[rule]]',
      'name = "same"',
      'failed = false',
      '[[rule]]',
      'name = "same"',
      'failed = true',
      '[webhok]',
      'x = 1',
      '[webhook]',
      'url = "https://user:secret@hooks.example"',
    ).map((line) => line.replace(/; .*$/, '')),
  ).toEqual([
    'watch.toml:13:2: there is no webhok',
    'watch.toml:14:1: there is no webhok',
    'watch.toml:2:8: name must be up to 64 letters, digits, ".", "_" and "-" in quotes',
    'watch.toml:3:1: there is no min-duraton here',
    'watch.toml:4:12: at-least must be a count from 1 to 1000 and a time of at most a day, such as "5 in 1m"',
    'watch.toml:1:3: the rule has no condition: give service, min-duration, min-event-duration, failed or error',
    'watch.toml:6:11: service must be a text or a list of texts, such as ["shop"]',
    'watch.toml:5:3: the rule needs a name',
    'watch.toml:9:10: failed must be true, or left out',
    'watch.toml:16:7: url must be https://HOST/PATH or http://HOST/PATH, without a user and a password',
    'watch.toml:10:3: there is another rule "same": give this one a name of its own',
  ]);
});

test('a rule without a condition, a table instead of a list and what is not TOML are refused', () => {
  expect(problemsOf('[[rule]]', 'name = "all"')).toEqual([
    expect.stringContaining('the rule has no condition: give service, min-duration'),
  ]);
  expect(problemsOf('[rule]', 'name = "one"')[0]).toContain('write [[rule]]');
  expect(problemsOf('name = ')[0]).toContain('this is not TOML');
  expect(problemsOf('[[rule]]', 'name = "a"', 'failed = true', '[webhook]', 'timeout = "1s"')).toEqual([
    expect.stringContaining('the webhook needs a url'),
  ]);
  const many = Array.from({ length: RULES_MAX + 1 }, (_, i) => `[[rule]]\nname = "r${i}"\nfailed = true`);
  expect(problemsOf(...many)).toEqual([`watch.toml: there are ${RULES_MAX + 1} rules, ${RULES_MAX} are the most`]);
});

test('whatever a value is, the file is read or every problem has a place; nothing else is thrown', () => {
  const value = fc.oneof(
    fc.string().map((text) => JSON.stringify(text).replaceAll('\x7f', '\\u007f')),
    fc.constantFrom(
      'true',
      'false',
      '1',
      '-1.5',
      '[]',
      '["a"]',
      '[[1]]',
      '{}',
      '{ a = 1 }',
      '2026-11-30',
      '"5 in 1m"',
      '"1s"',
    ),
  );
  const keys = ['name', 'service', 'min-duration', 'failed', 'error', 'at-least', 'cool-down', '__proto__', 'a.b'];
  const table = fc.dictionary(fc.constantFrom(...keys), value, { noNullPrototype: true });
  fc.assert(
    fc.property(fc.array(table, { maxLength: 4 }), table, (tables, hook) => {
      const write = (entries: Record<string, string>) =>
        Object.entries(entries).map(([key, text]) => `${key} = ${text}`);
      const lines = [...tables.flatMap((one) => ['[[rule]]', ...write(one)]), '[webhook]', ...write(hook)];
      for (const problem of problemsOf(...lines)) expect(problem).toMatch(/^watch\.toml:\d+:\d+: \S/);
    }),
    { numRuns: times(200) },
  );
});
