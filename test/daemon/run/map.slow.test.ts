/** Tests the proposal of `--map`, and `--map auto`, with real programs that write the recorded files somewhere else. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunResult } from '../../../daemon/run/report/result.ts';
import { type Running, startWith } from '../command_line.ts';
import { hosted } from '../hosted.ts';
import { newFolder, type Row } from '../recorded.ts';
import { bundleOf, MS, writesTo } from './incident.ts';
import { TRANSACTION } from './planned.ts';

const LENGTHS = [20, 30, 5, 40, 25];
const RECORDED = '/srv/shop/data/orders.log';

let folder: string;
let report: string;
beforeEach(() => {
  folder = newFolder();
  report = join(folder, 'report.json');
});

/** Writes five blocks to each of the files, and counts how often it is run. */
function build(...names: string[]): string[] {
  const script = 'cd "$0"; echo x >> runs; for f; do dd if=/dev/zero of="$f" bs=4096 count=5 status=none || exit; done';
  for (const name of names) mkdirSync(join(folder, name, '..'), { recursive: true });
  return ['sh', '-c', script, folder, ...names];
}

const optionsFor = (rows: readonly Row[], ...options: string[]) => [
  ...['--bundle', bundleOf(rows), '--transaction', TRANSACTION, '--report', report],
  ...options,
];
const started = (rows: readonly Row[], command: readonly string[], ...options: string[]) =>
  hosted('run', ...optionsFor(rows, ...options), '--', ...command);
const resultOf = () => JSON.parse(readFileSync(report, 'utf8')) as RunResult;
const runCount = () => readFileSync(join(folder, 'runs'), 'utf8').length / 2;
const lastOf = (text: string) => text.trimEnd().split('\n').at(-1);

test('a map is proposed, on the last line too, and works as it is printed', async () => {
  const rows = writesTo(RECORDED, LENGTHS);
  const failed = await started(rows, build('var/orders.log'));
  const option = `--map ${folder}/var=/srv/shop/data`;
  expect([failed.code, lastOf(failed.stderr)]).toEqual([
    124,
    `kreplay run: FAILED: the run is diverged, and --require asks for partial: pass ${option}`,
  ]);
  expect(failed.stderr).toContain(
    `kreplay run: files of the incident have the same names below another folder here: ${option}?\n`,
  );
  expect(resultOf().proposed_maps).toEqual({
    maps: [{ here: join(folder, 'var'), there: '/srv/shop/data', files: 1 }],
    fits: true,
    options: [option],
  });
  const passed = await started(rows, build('var/orders.log'), ...option.split(' '));
  expect([passed.code, passed.stderr]).toEqual([0, expect.not.stringContaining('same names')]);
});

test('with auto the command is run again under the only map that fits', async () => {
  const { code, stderr } = await started(writesTo(RECORDED, LENGTHS), build('var/orders.log'), '--map', 'auto');
  const map = `${folder}/var=/srv/shop/data`;
  expect([code, stderr.split('\n')[0]]).toEqual([
    0,
    `kreplay run: --map auto is --map ${map}: the command is run again with it`,
  ]);
  const { settings, figures } = resultOf();
  expect([settings.map, figures!.how.exact, runCount()]).toEqual([[map], 5, 2]);
});

test('with auto a command that finds its files is run once', async () => {
  const rows = writesTo(join(folder, 'var/orders.log'), LENGTHS);
  const { code, stderr } = await started(rows, build('var/orders.log', 'other/orders.log'), '--map', 'auto');
  expect([code, stderr, runCount(), resultOf().settings.map]).toEqual([
    0,
    expect.not.stringContaining('same names'),
    1,
    [],
  ]);
});

test('where two maps fit, both are named and none is taken', async () => {
  const { code, stderr } = await started(
    writesTo(RECORDED, LENGTHS),
    build('a/orders.log', 'b/orders.log'),
    '--map',
    'auto',
  );
  const options = ['a', 'b'].map((name) => `--map ${folder}/${name}=/srv/shop/data`).join(', or ');
  expect([code, lastOf(stderr)]).toEqual([124, expect.stringMatching(`asks for partial: choose one: ${options}$`)]);
  expect([runCount(), resultOf().settings.map]).toEqual([1, []]);
});

test('auto goes along with a map that is given of a folder in the proposed one, and with --repeat', async () => {
  const rows = [
    ...writesTo(RECORDED, LENGTHS),
    ...writesTo('/var/lib/shop/db', LENGTHS, { tid: 8 }).map((row) => ({ ...row, at: row.at + 1000n * MS })),
  ];
  const options = ['--map', 'auto', '--map', `${folder}/var/lib=/var/lib/shop`, '--repeat', '2'];
  const { code, stderr } = await started(rows, build('var/orders.log', 'var/lib/db'), ...options);
  expect([code, stderr]).toEqual([0, expect.stringContaining('kreplay run: 2 of 2:')]);
  expect([runCount(), resultOf().settings.map]).toEqual([
    3,
    [`${folder}/var/lib=/var/lib/shop`, `${folder}/var=/srv/shop/data`],
  ]);
});

test('with auto a command that was ended by a signal is not run again', async () => {
  const script = 'echo x >> "$0/runs"; mkdir "$0/var"; cd "$0/var"; printf x > orders.log; echo ready; exec sleep 600';
  const options = optionsFor(writesTo(RECORDED, LENGTHS), '--map', 'auto');
  const running: Running = startWith({}, 'run', ...options, '--', 'sh', '-c', script, folder);
  await running.printed(/ready/);
  running.child.kill('SIGTERM');
  expect((await running.ended).code).toBe(143);
  expect(runCount()).toBe(1);
});

test('a hostile name is proposed as one word, without its control characters', async () => {
  const name = `it's $(touch owned) "\u001b[31m`;
  writeFileSync(join(folder, 'runs'), '');
  const { code, stderr } = await started(writesTo(RECORDED, LENGTHS), build(`${name}/orders.log`));
  expect([code, stderr]).toEqual([
    124,
    expect.stringContaining(`--map '${folder}/it'\\''s $(touch owned) "\\u{1b}[31m=/srv/shop/data'`),
  ]);
});
