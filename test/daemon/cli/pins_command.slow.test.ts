/** Tests `kreplay pin` and `kreplay unpin` as users and scripts run them. */

import { mkdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { formatTime } from '../../../daemon/base/time_text.ts';
import { kreplay } from '../command_line.ts';
import { hosted } from '../hosted.ts';
import { newFolder, type Row, recorded, recordedOn, recordingPath, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';

const S = 1_000_000_000n;
const ODD = 'ä/%2F \u001b[31m?#';
const ROWS: Row[] = [
  { at: START + 60n * S, transaction: 'tx-1' },
  { at: START + 61n * S, transaction: ODD },
];

let served: Served;
beforeEach(async () => {
  served = await serve(recorded(ROWS));
});
afterEach(() => served.close());

const run = (...args: string[]) => hosted(...args, '--url', served.url);

test('on a terminal', async () => {
  expect(await run('pin', 'tx-1', '--output', 'text')).toEqual({
    code: 0,
    stdout: 'tx-1 is pinned on test-node: events from 2025-11-21T00:00:50.000000000Z on are kept\n',
    stderr: '',
  });
  const before = ['--before', '1.000001ms'];
  expect((await run('pin', ODD, ...before, '--output', 'text')).stdout).toBe(
    'ä/%2F \\u{1b}[31m?# is pinned on test-node: events from 2025-11-21T00:01:00.998999999Z on are kept\n',
  );
  const { stdout } = await run('pin', '--list', '--output', 'text');
  expect(stdout.replace(/ {2,}/g, '  ').split('\n')).toEqual([
    'TRANSACTION  NODE  KEPT FROM  PINNED AT',
    'tx-1  test-node  2025-11-21T00:00:50.000000000Z  2025-11-21T00:00:00.000Z',
    'ä/%2F \\u{1b}[31m?#  test-node  2025-11-21T00:01:00.998999999Z  2025-11-21T00:00:00.000Z',
    '',
  ]);
  expect(await run('unpin', ODD)).toEqual({ code: 0, stdout: 'ä/%2F \\u{1b}[31m?# is no longer pinned\n', stderr: '' });
  expect((await served.get('/api/pins')).json.pins).toHaveLength(1);
});

test('digits are exact in a pipeline', async () => {
  const fromNs = START + 60n * S;
  const from = `"from":${fromNs},"from_time":"${formatTime(fromNs)}"`;
  const pinned_at = '"pinned_at":"2025-11-21T00:00:00.000Z"';
  const { code, stdout } = await run('pin', 'tx-1', '--before', '0s');
  expect([code, stdout]).toEqual([0, `{"transaction_id":"tx-1",${from},${pinned_at},"nodes":["test-node"]}\n`]);
  expect((await run('pin', '--list')).stdout).toBe(
    `{"transaction_id":"tx-1",${from},${pinned_at},"node":"test-node"}\n`,
  );
  await run('unpin', 'tx-1');
  expect(await run('pin', '--list')).toEqual({ code: 0, stdout: '', stderr: '' });
});

test('a transaction that only imports hold needs no pin', async () => {
  const data = newFolder();
  mkdirSync(join(data, 'imported'));
  renameSync(recordingPath(recordedOn('far', ROWS)), join(data, 'imported', 'far.kreplay'));
  const daemon = await serve(data);
  expect(await hosted('pin', 'tx-1', '--output', 'text', '--url', daemon.url)).toEqual({
    code: 0,
    stdout: 'tx-1 is only in imports and bundles: nothing is ever removed from those\n',
    stderr: '',
  });
  await daemon.close();
});

test('a failure is printed as one line', async () => {
  expect(await run('pin', 'other')).toEqual({
    code: 1,
    stdout: '',
    stderr: 'kreplay: no events of transaction other are recorded (transaction_not_found)\n',
  });
  expect(await run('unpin', 'tx-1')).toEqual({
    code: 1,
    stdout: '',
    stderr: 'kreplay: transaction tx-1 is not pinned (not_pinned)\n',
  });
  const { code, stderr } = await kreplay('pin', 'tx-1', '--url', 'http://127.0.0.1:1');
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^kreplay: no daemon at .*: start one with .*\n$/)]);
});

test.each<[string[]]>([
  [['pin']],
  [['pin', 'tx-1', '--list']],
  [['pin', '--list', '--before', '1s']],
  [['pin', '']],
  [['pin', 'tx-1', '--before', '10']],
  [['pin', 'tx-1', '--before', '24h1ns']],
  [['pin', 'tx-1', '--output', 'xml']],
  [['pin', 'tx-1', 'tx-2']],
  [['unpin']],
  [['unpin', '']],
  [['unpin', 'tx-1', '--before', '1s']],
])('%j is a usage error', async (args) => {
  const { code, stdout, stderr } = await hosted(...args);
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(/^error: .+\nSee kreplay (un)?pin --help\n$/);
});
