/** Tests `kreplay diff`: two runs, and a run against its incident. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from '../../../../daemon/base/exact_json.ts';
import { computeDifference } from '../../../../daemon/model/run_difference.ts';
import { parseReport } from '../../../../daemon/run/report/diff.ts';
import { kreplay } from '../../command_line.ts';
import { hosted } from '../../hosted.ts';
import { newFolder, START } from '../../recorded.ts';
import { incidentOf } from '../planned.ts';
import { type Call, ran, saidOf } from '../reported.ts';

const MS = 1_000_000;
const incident = incidentOf(
  [0, 1, 2].map((at) => ({ at: START + BigInt(at), duration: BigInt(MS), file: `/data/${'ab'[at % 2]}`, fd: 5 })),
);

/** Streams a and b are of the incident, and c is not in it. */
const said = saidOf(
  ...['a', 'b', 'c'].map((name, stream) => {
    const recorded_events = [2, 1, 0][stream];
    return { kind: 'stream', stream, op_class: 'write', path: `/data/${name}`, role: 'w', recorded_events };
  }),
);

const FIRST: Call[] = [
  { stream: 0, event: 0, target: MS },
  { stream: 0, event: 1, target: MS },
  { stream: 1, event: 2, target: MS },
];
const SECOND: Call[] = [
  { stream: 0, event: 0, target: MS, held: 3 * MS },
  { stream: 0, event: 1, target: MS },
  { stream: 2, how: 'extra', at: 9, target: MS },
];

function reportOf(calls: readonly Call[]): string {
  const path = join(newFolder(), 'report.json');
  writeFileSync(path, stringify(ran(incident, calls, { said }).result));
  return path;
}

const changes = [
  { path: '/data/a', calls: [2, 2], took_ns: [2 * MS, 4 * MS], change: 'same' },
  { path: '/data/b', calls: [1, 0], took_ns: [MS, 0], change: 'vanished' },
  { path: '/data/c', calls: [0, 1], took_ns: [0, MS], change: 'new' },
];

test('two runs', async () => {
  const { code, stdout } = await kreplay('diff', reportOf(FIRST), reportOf(SECOND));
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({
    beside: 'run',
    calls: [3, 3],
    took_ns: [3 * MS, 5 * MS],
    first_divergence_ns: 9,
    exceeded: [],
    streams: changes,
  });
});

test('a run compared with its incident', async () => {
  const { stdout } = await hosted('diff', reportOf(SECOND));
  expect(JSON.parse(stdout)).toMatchObject({ beside: 'incident', calls: [3, 3], took_ns: [2 * MS, 5 * MS] });
});

test('a run compared with itself has no difference', () => {
  const report = parseReport(stringify(ran(incident, SECOND, { said }).result), 'x');
  for (const { calls, took_ns, change } of computeDifference(report, report).streams)
    expect([calls[0], took_ns[0], change]).toEqual([calls[1], took_ns[1], 'same']);
});

test('a table', async () => {
  const { stdout } = await hosted('diff', reportOf(FIRST), reportOf(SECOND), '--output', 'table');
  expect(stdout.split('\n').map((line) => line.split(/ {2,}/).filter((cell) => cell !== ''))).toEqual([
    ['CALLS', 'THREADS', 'BEFORE', 'AFTER', 'TOOK', 'NOW'],
    ['write /data/a', 'w', '2', '2', '2ms', '4ms'],
    ['write /data/b', 'w', '1', '0', '1ms', '0ns', 'vanished'],
    ['write /data/c', 'w', '0', '1', '0ns', '1ms', 'new'],
    [],
    ['3 calls took 3ms, now 3 take 5ms'],
    ['the command ended with 0 after 1.5s, now with 0 after 1.5s'],
    ['the first call too many was at 9ns'],
    [],
  ]);
});

test.each([
  [['--max-slower', '70%'], 0],
  [['--max-slower', '60'], 3],
  [['--same-calls'], 3],
])('limits: %j', async (options, expected) => {
  const { code, stderr } = await hosted('diff', reportOf(FIRST), reportOf(SECOND), ...options);
  expect(code).toBe(expected);
  expect(stderr === '').toBe(expected === 0);
});

test.each([
  ['invalid JSON', 'x', 'is not a report of kreplay run'],
  ['other JSON', '{"kreplay_run":1}', 'is not a report of kreplay run, or is of another version'],
  [
    'an unsupported run',
    stringify({ ...ran(incident, []).result, figures: null, ended: null, verdict: 'unsupported' }),
    'is of a run whose command was not started: it was unsupported',
  ],
])('%s is refused', async (_, text, message) => {
  const path = join(newFolder(), 'report.json');
  writeFileSync(path, text);
  const { code, stderr } = await hosted('diff', path);
  expect([code, stderr]).toEqual([1, expect.stringContaining(message)]);
});

test('a missing file', async () => {
  const { code, stderr } = await hosted('diff', '/nowhere/report.json');
  expect([code, stderr]).toEqual([1, expect.stringContaining('/nowhere/report.json cannot be read')]);
});
