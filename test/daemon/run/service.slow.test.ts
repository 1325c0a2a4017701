/** Tests `--service`: of an incident of several services, only the calls of one are planned and judged. */

import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import type { RunResult } from '../../../daemon/run/report/result.ts';
import { hosted } from '../hosted.ts';
import { newFolder, type Row } from '../recorded.ts';
import { served } from '../served.ts';
import { bundleOf, MS, writesTo } from './incident.ts';
import { TRANSACTION } from './planned.ts';

const { ENOSPC } = constants.errno;
const LENGTHS = [20, 30, 5, 40, 25];

let folder: string;
let file: string;
let report: string;
beforeEach(() => {
  folder = newFolder();
  [file, report] = [join(folder, 'out'), join(folder, 'report.json')];
});

/** A gateway begins, and an index and a shop follow; the last call of the shop failed. */
function incident(): Row[] {
  const of = (service: string, path: string, lengths: readonly number[], tid: number, afterMs: bigint) =>
    writesTo(path, lengths, { service, tid }).map((row) => ({ ...row, at: row.at + afterMs * MS }));
  const shop = of('shop', file, LENGTHS, 7, 500n);
  const failed = { ...shop.at(-1)!, result: BigInt(-ENOSPC) };
  const index = of('index, and more', '/srv/index', [300, 300], 9, 1000n);
  const request: Row = {
    type: 'block_io',
    at: index[1]!.at + MS,
    duration: 100n * MS,
    tid: 9,
    service: 'index, and more',
    origins: [{ service: 'shop', transaction: TRANSACTION, bytes: 4096n }],
  };
  return [...of('gateway', '/srv/gateway', [1], 8, 0n), ...shop.slice(0, -1), failed, ...index, request];
}

const dd = (count = 5) => ['dd', 'if=/dev/zero', `of=${file}`, 'bs=4096', `count=${count}`];
const started = (from: readonly string[], ...words: string[]) =>
  hosted('run', ...from, '--transaction', TRANSACTION, '--report', report, ...words);
const resultOf = () => JSON.parse(readFileSync(report, 'utf8')) as RunResult;

test('of all services, one is too little for a replay, and the last line names the option', async () => {
  const { code, stderr } = await started(['--bundle', bundleOf(incident())], '--', ...dd());
  expect([code, stderr]).toEqual([
    124,
    expect.stringMatching(
      /FAILED: the run is diverged, .* pass --service shop if the command is only that service, whose calls it made\n$/,
    ),
  ]);
  expect(resultOf().figures!.services).toEqual([
    { service: 'index, and more', planned_ns: 600 * 1e6, delivered_ns: 0 },
    { service: 'shop', planned_ns: 120 * 1e6, delivered_ns: 120 * 1e6 },
    { service: 'gateway', planned_ns: 1e6, delivered_ns: 0 },
  ]);
});

describe.each(['a bundle', 'a daemon'])('from %s', (kind) => {
  async function from(rows: readonly Row[]): Promise<string[]> {
    const bundle = bundleOf(rows);
    return kind === 'a bundle' ? ['--bundle', bundle] : ['--url', (await served(join(bundle, '..'))).url];
  }

  test('only the calls of the service are planned and judged', async () => {
    const { code, stderr } = await started(await from(incident()), '--service', 'shop', '--', ...dd());
    expect([code, stderr]).toEqual([0, expect.stringContaining('100% of 120ms planned went to the calls')]);
    const { settings, figures, incident: planned } = resultOf();
    expect(settings.service).toBe('shop');
    expect(figures!.streams.map(({ path }) => path)).toEqual([file]);
    expect([planned.events, planned.planned_events]).toEqual([5, 5]);
    // Times are from the first event of the service.
    expect(Math.min(...figures!.slowest.map(({ offset_ns }) => offset_ns))).toBe(0);
  });

  test('errors stay with its calls, and those of others are not replayed', async () => {
    const options = ['--service', 'shop', '--replay-errors'];
    const { code, stderr } = await started(await from(incident()), ...options, '--', ...dd());
    expect([code, stderr]).toEqual([1, expect.stringContaining('No space left on device')]);
    expect(resultOf().figures!.how).toMatchObject({ exact: 4, error_injected: 1 });
    const other = ['--service', 'gateway', '--replay-errors', '--require', 'none'];
    expect((await started(await from(incident()), ...other, '--', ...dd())).code).toBe(0);
  });

  test('an unknown service is an error that lists those of the incident', async () => {
    const place = await from(incident());
    const { code, stderr } = await started(place, '--service', 'shap', '--', ...dd());
    expect([code, stderr]).toEqual([
      125,
      `kreplay: ${place[1]} has no events of service shap in transaction ${TRANSACTION}: ` +
        "its services are gateway, 'index, and more', shop\n",
    ]);
  });
});

test('a name with any characters is a name', async () => {
  const hostile = `a'b"\u001b[1m$(x)`;
  const rows = writesTo(file, LENGTHS, { service: hostile });
  const bundle = ['--bundle', bundleOf(rows)];
  expect((await started(bundle, '--service', hostile, '--', ...dd())).code).toBe(0);
  const { stderr } = await started(bundle, '--service', 'shop', '--', ...dd());
  expect(stderr).toContain(`its services are 'a'\\''b"\\u{1b}[1m$(x)'\n`);
});
