/** Tests `--inject` and `--fail`: what they select, and the errors for rules that make no sense. */
import { execFileSync } from 'node:child_process';
import { constants } from 'node:os';
import fc from 'fast-check';
import type { IncidentStream } from '../../../../daemon/run/plan/incident.ts';
import {
  isChosen,
  listPathPatterns,
  parseFailRule,
  parseInjectRule,
  RuleError,
} from '../../../../daemon/run/plan/rules.ts';

const WRITE: IncidentStream = {
  op: 'pwrite64',
  path: '/data/wal/seg-1.log',
  pathKind: 'regular',
  comm: 'writer-1',
  service: 'db',
  isOutput: false,
};
const SYNC: IncidentStream = { ...WRITE, op: 'fsync' };

test('a rule with all parts', () => {
  const rule = parseInjectRule('sys_write:service=db:path=/data/*:extra=10ms:factor=1.5');
  expect(rule).toMatchObject({ eventType: 'sys_write', extraNs: 10_000_000, factor: 1.5 });
  expect(parseFailRule('sys_write:ENOSPC:nth=3')).toMatchObject({ errno: constants.errno.ENOSPC, nth: 3 });
  expect(parseFailRule('block_io:comm=x:EIO')).toMatchObject({ errno: constants.errno.EIO, nth: undefined });
});

test.each([
  ['sys_write', true, false],
  ['block_io', false, true],
  ['sys_sync', false, true],
  ['sys_sync:syscall=fsync', false, true],
  ['sys_sync:syscall=msync', false, false],
  ['sys_write:service=db', true, false],
  ['sys_write:service=d', false, false],
  ['sys_write:service=d*', true, false],
  ['sys_write:syscall=pwrite64', true, false],
  ['sys_write:syscall=write', false, false],
  ['sys_write:path=/data/wal/seg-1.log', true, false],
  ['sys_write:path=/data/wal/seg-1xlog', false, false],
  ['sys_write:path=*.log', true, false],
  ['sys_write:path=*.log:comm=writer-?', false, false],
  ['block_io:comm=writer-*', false, true],
])('%s selects the write: %s, the sync: %s', (text, write, sync) => {
  const rule = parseInjectRule(`${text}:extra=1ms`);
  expect([isChosen(rule, WRITE), isChosen(rule, SYNC)]).toEqual([write, sync]);
});

test.each([
  ['', 'must begin with sys_write, block_io, or sys_sync, not nothing'],
  ['write:extra=1ms', 'must begin with sys_write, block_io, or sys_sync, not write'],
  ['sys_write', 'must say what to do'],
  ['sys_write:extra=10', 'must have a duration with its unit'],
  ['sys_write:extra=2h', 'at most 1h'],
  ['sys_write:extra=1ms:extra=2ms', 'must not have extra twice'],
  ['sys_write:node=x:extra=1ms', 'must not have node; there are service, comm, path, syscall, extra, factor'],
  ['sys_write:service=:extra=1ms', 'empty text'],
  ['sys_write::extra=1ms', 'empty parts'],
  ['sys_write:service:extra=1ms', 'must have NAME=VALUE, not service'],
  ['sys_write:factor=-1', 'factor from 0 to 1000'],
  ['sys_write:factor=1001', 'factor from 0 to 1000'],
])('--inject %j: %s', (text, message) => {
  expect(() => parseInjectRule(text)).toThrow(message);
});

test.each([
  ['sys_write', 'must name one error'],
  ['sys_write:nth=3', 'must name one error'],
  ['sys_write:ENOSPC:EIO', 'must name one error'],
  ['sys_write:ENOTHING', 'must name an error such as ENOSPC or EIO, not ENOTHING'],
  ['sys_write:constructor', 'must name an error'],
  ['sys_write:EIO:nth=0', 'nth=1 or more'],
  ['sys_write:EIO:extra=1ms', 'must not have extra; there are service, comm, path, syscall, nth'],
])('--fail %j: %s', (text, message) => {
  expect(() => parseFailRule(text)).toThrow(message);
});

test('any text is a rule or is refused with an explanation', () => {
  const part = fc.constantFrom(
    'sys_write',
    'block_io',
    'sys_sync',
    'extra=1ms',
    'path=*',
    'nth=2',
    'EIO',
    '\\',
    '=',
    'factor=2',
  );
  const text = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.array(part).map((parts) => parts.join(':')),
  );
  fc.assert(
    fc.property(text, (rule) => {
      for (const parse of [parseInjectRule, parseFailRule]) {
        try {
          isChosen(parse(rule), WRITE);
        } catch (error) {
          expect(error).toBeInstanceOf(RuleError);
          expect((error as Error).message).toMatch(/^must /);
        }
      }
    }),
    { numRuns: 500 },
  );
});

test('any path can be written as a rule that selects it and no other', () => {
  const path = fc.string({ unit: 'binary', minLength: 1 }).filter((text) => text.isWellFormed());
  fc.assert(
    fc.property(path, path, (wanted, other) => {
      const escaped = wanted.replace(/[\\:*]/g, '\\$&');
      const rule = parseInjectRule(`sys_write:path=${escaped}:extra=1ms`);
      expect(isChosen(rule, { ...WRITE, path: wanted })).toBe(true);
      expect(isChosen(rule, { ...WRITE, path: other })).toBe(other === wanted);
    }),
  );
});

test('a star matches any text, also among other stars', () => {
  fc.assert(
    fc.property(
      fc.array(fc.stringMatching(/^[a-c./]*$/), { minLength: 1, maxLength: 4 }),
      fc.string(),
      (pieces, gap) => {
        const rule = parseInjectRule(`sys_write:path=/${pieces.join('*')}:extra=1ms`);
        expect(isChosen(rule, { ...WRITE, path: `/${pieces.join(gap)}` })).toBe(true);
      },
    ),
  );
});

test.each([
  ['path=/data/*.log', ['/data/*.log']],
  ['path=/a?b[c]', ['/a\\?b\\[c]']],
  ['path=/a\\*b', ['/a\\*b']],
  ['path=/a\\:b', ['/a:b']],
  ['path=/end\\', ['/end\\\\']],
  ['path=/a:comm=b*', ['/a']],
  ['comm=b', []],
])('%s is passed to fnmatch(3) as %j', (text, patterns) => {
  expect(listPathPatterns(parseInjectRule(`sys_write:extra=1ms:${text}`))).toEqual(patterns);
});

test('fnmatch(3) selects the same paths as the rule', () => {
  const path = fc
    .array(fc.constantFrom('a', 'b', '/', '*', '?', '[', ']', '-', '!', '\\', '.'), { minLength: 1, maxLength: 6 })
    .map((pieces) => pieces.join(''));
  const cases = fc.sample(fc.tuple(path, path), 300).filter(([rule]) => !rule.endsWith('\\'));
  const patterns = cases.map(([rule]) => listPathPatterns(parseInjectRule(`sys_write:path=${rule}:extra=1ms`))[0]!);
  const program = `
import ctypes, json, sys
libc = ctypes.CDLL(None)
print(json.dumps([libc.fnmatch(p.encode(), t.encode(), 0) == 0 for p, t in json.load(sys.stdin)]))`;
  const input = JSON.stringify(cases.flatMap(([rule, other], at) => [rule, other].map((text) => [patterns[at], text])));
  const chosen = JSON.parse(execFileSync('python3', ['-c', program], { input, encoding: 'utf8' })) as boolean[];
  const expected = cases.flatMap(([rule, other]) => {
    const parsed = parseInjectRule(`sys_write:path=${rule}:extra=1ms`);
    return [rule, other].map((text) => isChosen(parsed, { ...WRITE, path: text }));
  });
  expect(chosen).toEqual(expected);
});
