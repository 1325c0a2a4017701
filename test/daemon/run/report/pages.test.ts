/** Tests a run as JUnit XML and as a page, with independent parsers and any recorded names. */
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { buildHtmlReport } from '../../../../daemon/run/report/html.ts';
import { buildJunitReport } from '../../../../daemon/run/report/junit.ts';
import type { RunResult } from '../../../../daemon/run/report/result.ts';
import { START } from '../../recorded.ts';
import { incidentOf } from '../planned.ts';
import { type Call, ran, saidOf } from '../reported.ts';

const MS = 1_000_000n;
const HOSTILE = `</svg><script>alert("1")</script>&'\u0000\u0007]]>\ud800\uffff\u202e`;

const rows = (path: string) =>
  Array.from({ length: 40 }, (_, at) => {
    const duration = BigInt(at + 1) * MS;
    return { at: START + BigInt(at) * 50n * MS, duration, file: `${path}${at % 4}`, comm: 'w', requested: 64n, fd: 5 };
  });
const incident = incidentOf(rows('/data/<a>&'));
/** The plan has the ten events of each file in a row. */
const perfect: Call[] = Array.from({ length: 40 }, (_, at) => ({
  at: at * 10_000_000,
  target: 1_000_000,
  event: (at % 4) * 10 + Math.floor(at / 4),
  stream: at % 4,
}));

/** An element as Python's parser, like most CIs' importers, sees it: [tag, attributes, text, children]. */
type Element = [string, Record<string, string>, string | null, Element[]];

function parsedXml(xml: string): Element {
  const program = [
    'import json, sys, xml.etree.ElementTree as t',
    'def look(e): return [e.tag, e.attrib, e.text, [look(c) for c in e]]',
    'json.dump(look(t.fromstring(sys.stdin.buffer.read())), sys.stdout)',
  ].join('\n');
  return JSON.parse(execFileSync('python3', ['-c', program], { input: xml, encoding: 'utf8' })) as Element;
}

function casesOf(result: RunResult): [string, string, string][] {
  const [tag, totals, , [suite]] = parsedXml(buildJunitReport(result));
  expect(tag).toBe('testsuites');
  const [suiteTag, counts, , children] = suite!;
  expect(suiteTag).toBe('testsuite');
  const cases = children.filter(([name]) => name === 'testcase');
  const having = (kind: string) => cases.filter(([, , , [outcome]]) => outcome?.[0] === kind).length;
  const expected = {
    tests: `${cases.length}`,
    failures: `${having('failure')}`,
    errors: `${having('error')}`,
    skipped: `${having('skipped')}`,
  };
  expect(counts).toMatchObject(expected);
  expect(totals).toMatchObject({ tests: expected.tests, failures: expected.failures, errors: expected.errors });
  for (const [, { classname, time }] of cases) {
    expect(classname).toBe('kreplay.run');
    expect(time).toMatch(/^\d+\.\d{3}$/);
  }
  return cases.map(([, { name }, , [outcome]]) => [name!, outcome?.[0] ?? 'passed', outcome?.[1].message ?? '']);
}

describe('JUnit', () => {
  test('a replay that passed', () => {
    expect(casesOf(ran(incident, perfect, { gates: { require: 'replayed' } }).result)).toEqual([
      ['the command: ./build a b', 'passed', ''],
      ['the incident is replayed', 'passed', ''],
      ['--require replayed', 'passed', ''],
    ]);
  });

  test('a failed command in a replay that diverged', () => {
    const cases = casesOf(ran(incident, [], { code: 3 }).result);
    expect(cases.map(([, outcome]) => outcome)).toEqual(['failure', 'skipped']);
    expect(cases[0]![2]).toBe('it ended with 3; the run is diverged');
    expect(cases[1]![2]).toMatch(/^diverged: calls that they belong to got 0%/);
  });

  /** The text below the message of a case that is not passed. */
  function textOf(result: RunResult, name: string): string[] {
    const [, , , [suite]] = parsedXml(buildJunitReport(result));
    const [, , , [outcome]] = suite![3].find(([tag, attributes]) => tag === 'testcase' && attributes.name === name)!;
    return outcome![2]!.split('\n');
  }

  test('a failure names the verdict, the slowest calls that the command felt, and its last lines', () => {
    const said = saidOf(
      ...[0, 1].map((stream) => ({
        kind: 'stream',
        stream,
        op_class: 'write',
        path: `/data/${HOSTILE}${stream}`,
        role: 'w',
        recorded_events: 10,
      })),
    );
    const calls = perfect.map((call, at) => ({ ...call, held: at * 1_000_000 }));
    const lastLines = [{ output: 'standard error' as const, lines: ['make: *** [check] Error 1', ']]>&<failure/>'] }];
    const { result } = ran(incident, calls, { code: 2, said, lastLines });
    const [message, ...text] = textOf(result, 'the command: ./build a b');
    expect(message).toBe(`it ended with 2; the run is ${result.verdict}`);
    // The streams 2 and 3 are unknown: their calls are left out.
    expect(text.map((line) => /^ {2}([\d.]+ms) write \/data\/|.*/.exec(line)!.at(1) ?? line)).toEqual([
      'The slowest calls that the command felt:',
      ...['37ms', '36ms', '33ms', '32ms', '29ms'],
      "The last lines of the command's standard error:",
      '  make: *** [check] Error 1',
      '  ]]>&<failure/>',
    ]);
  });

  test('a machine that is too noisy is a warning where the verdict is allowed, and a failure elsewhere', () => {
    const late = perfect.map((call) => ({ ...call, held: 60_000_000 }));
    const junit = buildJunitReport(ran(incident, late, { gates: { require: 'partial' } }).result);
    const [, , , [suite]] = parsedXml(junit);
    const [[, , , properties]] = suite![3] as [Element];
    expect(properties.map(([, { name, value }]) => [name, value])).toContainEqual([
      'warning',
      expect.stringMatching(/^partial: the machine is too noisy: /),
    ]);
    const replay = suite![3].find(([, { name }]) => name === 'the incident is replayed')!;
    expect(replay[3]).toEqual([['system-out', {}, expect.stringMatching(/^warning: partial: the machine/), []]]);
    expect(suite![1]).toMatchObject({ failures: '0', skipped: '0' });
    const required = casesOf(ran(incident, late, { gates: { require: 'replayed' } }).result);
    expect(required.map(([, outcome]) => outcome)).toEqual(['passed', 'failure', 'failure']);
  });

  test('a required replay fails with its gate', () => {
    const cases = casesOf(ran(incident, [], { gates: { require: 'partial', maxDurationNs: 1 } }).result);
    expect(cases.map(([name, outcome]) => [name, outcome])).toEqual([
      ['the command: ./build a b', 'passed'],
      ['the incident is replayed', 'failure'],
      ['--require partial', 'failure'],
      ['--max-duration', 'failure'],
    ]);
  });

  test('an expected failure is not a failure', () => {
    const [command] = casesOf(ran(incident, perfect, { gates: { expectExit: 3 }, code: 3 }).result);
    expect(command![1]).toBe('passed');
  });

  test('a transaction that cannot be replayed is an error, and the command was skipped', () => {
    const { result } = ran(incident, []);
    const cases = casesOf({ ...result, verdict: 'unsupported', reasons: ['no listener'], ended: null, figures: null });
    expect(cases).toEqual([
      ['the command: ./build a b', 'skipped', 'no exit code is known: no listener'],
      ['the incident is replayed', 'error', 'unsupported: no listener'],
    ]);
  });

  test('any text is read back as it was written, except for what XML cannot represent', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const settings = { command: [text], transaction_id: text };
        const name = casesOf(ran(incident, [], { settings }).result)[0]![0];
        // biome-ignore lint/suspicious/noControlCharactersInRegex: XML has no place for these
        const readable = text.replace(/[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|\p{Cs}/gu, '\ufffd');
        expect(name).toBe(`the command: ${readable}`);
      }),
      { numRuns: 20 },
    );
  });
});

describe('the HTML page', () => {
  /** All tags and attributes, as Python's parser sees them. */
  function tagsIn(html: string): [string, Record<string, string>][] {
    const program = [
      'import json, sys, html.parser',
      'found = []',
      'class Look(html.parser.HTMLParser):',
      '  def handle_starttag(self, tag, attributes): found.append([tag, dict(attributes)])',
      'Look().feed(sys.stdin.buffer.read().decode())',
      'json.dump(found, sys.stdout)',
    ].join('\n');
    return JSON.parse(execFileSync('python3', ['-c', program], { input: html, encoding: 'utf8' })) as never;
  }

  test('escapes hostile names, and loads nothing from the network', () => {
    const hostile = incidentOf(rows(HOSTILE));
    const settings = { command: [HOSTILE], transaction_id: HOSTILE };
    const { result, plan, report } = ran(hostile, perfect, { settings });
    const tags = tagsIn(buildHtmlReport(result, plan, report));
    const allowed =
      'html head meta title style body h1 h2 p ul li code span svg text rect line table tr th td title'.split(' ');
    expect([...new Set(tags.map(([tag]) => tag))].filter((tag) => !allowed.includes(tag))).toEqual([]);
    for (const [, attributes] of tags)
      for (const name of Object.keys(attributes)) expect(name).not.toMatch(/^(on|src|href|xlink)/);
  });

  test('shows the incident above the run', () => {
    const { result, plan, report } = ran(incident, perfect);
    const bars = tagsIn(buildHtmlReport(result, plan, report)).filter(([tag]) => tag === 'rect');
    const of = (kind: string) => bars.filter(([, attributes]) => attributes.class === kind);
    expect([of('planned').length, of('run').length]).toEqual([40, 40]);
    const tops = (kind: string) => [...new Set(of(kind).map(([, { y }]) => Number(y)))].sort((a, b) => a - b);
    expect(tops('run')).toEqual(tops('planned').map((top) => top + 18));
  });

  test('is small without a run, or for a million events', () => {
    const many = Array.from({ length: 20_000 }, (_, at): Call => ({ at: at * 1000, target: 500, event: at % 40 }));
    const { result, plan, report } = ran(incident, many);
    expect(buildHtmlReport(result, plan, report).length).toBeLessThan(1_000_000);
    const none = ran(incident, []);
    expect(buildHtmlReport({ ...none.result, figures: null, ended: null }, none.plan, none.report)).toContain(
      '</html>',
    );
  });
});
