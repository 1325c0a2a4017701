/** Coverage of answers from several recordings: calls and requests in progress, or lost when an agent ended. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { NONE_UNLISTED } from '../../../agent/recording/format/in_progress.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { appendRows, newFolder, newWriter, type Row, recordingPath, START, setInProgress } from '../recorded.ts';
import { served } from '../served.ts';

const SECOND = 1_000_000_000n;
const until = (node: string, rows: readonly Row[], open: readonly Row[], nowNs: bigint, unlisted = NONE_UNLISTED) => {
  const folder = newFolder();
  const writer = newWriter(folder, node, nowNs);
  appendRows(writer, rows);
  setInProgress(writer, open, unlisted);
  writer.close();
  return recordingPath(folder);
};
const order = (at: bigint): Row => ({ at, transaction: 'order-1', service: 'shop' });

test('have a call on a node that has no other event of its transaction, however long that was quiet', async () => {
  const paths = [
    until('a', [order(START)], [], START + 60n * SECOND),
    until('b', [], [order(START + 30n * SECOND)], START + 60n * SECOND),
  ];
  const daemon = await served(openRecordingStore(undefined, paths));
  daemon.setNow(START + 60n * SECOND);
  for (const path of ['/api/transactions/order-1', '/api/events?transaction_id=order-1', '/api/transactions']) {
    const { coverage } = (await daemon.get(path)).json;
    expect([path, coverage.complete, coverage.in_progress?.events[0].node]).toEqual([path, false, 'b']);
  }
  const { coverage } = (await daemon.get('/api/events?exclude_node=b')).json;
  expect([coverage.complete, coverage.in_progress]).toEqual([true, undefined]);
  const early = `/api/transactions?from=${START + SECOND}`;
  expect((await daemon.get(early)).json.coverage.in_progress).toBeUndefined();
});

test('say that a call is lost if its recording ended and another one of its node goes on', async () => {
  const paths = [
    until('a', [order(START)], [order(START + SECOND)], START + 2n * SECOND),
    until('a', [], [], START + 60n * SECOND),
  ];
  const daemon = await served(openRecordingStore(undefined, paths));
  daemon.setNow(START + 60n * SECOND);
  const { coverage } = (await daemon.get('/api/transactions/order-1')).json;
  expect([coverage.complete, coverage.in_progress]).toEqual([false, undefined]);
  expect(coverage.losses).toMatchObject([{ cause: 'in_progress', lost: 1 }]);
});

test('name a labelled call that is not listed wherever it may belong to', async () => {
  const unlisted = { count: 3, labelled: 2, sinceNs: START + 30n * SECOND };
  const paths = [
    until('a', [order(START)], [], START + 60n * SECOND),
    until('b', [], [], START + 60n * SECOND, unlisted),
  ];
  const daemon = await served(openRecordingStore(undefined, paths));
  daemon.setNow(START + 60n * SECOND);
  for (const path of [
    '/api/transactions/order-1',
    '/api/events?transaction_id=order-1',
    `/api/transactions?from=${START}&to=${START + SECOND}`,
  ]) {
    const { coverage } = (await daemon.get(path)).json;
    expect([path, coverage.complete, coverage.lost, coverage.in_progress?.count]).toEqual([path, false, 2, 2]);
  }
  const before = `/api/events?from=${START}&to=${START + SECOND}`;
  expect((await daemon.get(before)).json.coverage.in_progress).toBeUndefined();
});

test('have what is not listed as lost, in its time, if another recording of the node goes on', async () => {
  const unlisted = { count: 3, labelled: 2, sinceNs: START + SECOND };
  const paths = [
    until('a', [order(START)], [], START + 2n * SECOND, unlisted),
    until('a', [], [], START + 60n * SECOND),
  ];
  const daemon = await served(openRecordingStore(undefined, paths));
  daemon.setNow(START + 60n * SECOND);
  const gapsOf = async (path: string) => {
    const { losses, in_progress } = (await daemon.get(path)).json.coverage;
    expect(in_progress).toBeUndefined();
    return losses.flatMap(({ cause, lost }: { cause: string; lost: number }) =>
      cause === 'in_progress' ? [lost] : [],
    );
  };
  expect(await gapsOf('/api/events')).toEqual([3]);
  expect(await gapsOf('/api/transactions/order-1')).toEqual([2]);
  expect(await gapsOf(`/api/events?from=${START + 3n * SECOND}`)).toEqual([]);
});

test.each([false, true])('about many transactions have requests with data of several; ended: %j', async (isEnded) => {
  const folder = newFolder();
  const writer = newWriter(folder, 'a', START + 10n * SECOND);
  appendRows(writer, [order(START), { ...order(START + 1n), transaction: 'order-2' }]);
  const origins = ['order-1', 'order-2'].map((transaction) => ({ transaction, service: 'shop', bytes: 4096n }));
  setInProgress(writer, [{ at: START + 5n * SECOND, type: 'block_io', origins }]);
  writer.close();
  if (isEnded) newWriter(folder, 'a', START + 10n * SECOND).close();
  const daemon = await served(openRecordingStore(folder));
  daemon.setNow(START + 10n * SECOND);
  for (const path of [`/api/transactions?from=${START}&to=${START + SECOND}`, '/api/transactions/order-2']) {
    const { losses, in_progress } = (await daemon.get(path)).json.coverage;
    const causes = new Set(losses.map(({ cause }: { cause: string }) => cause));
    expect([path, causes.has('in_progress')]).toEqual([path, true]);
    expect(in_progress?.count).toBe(isEnded ? undefined : 1);
  }
});

test('about many transactions are given beside an import that cannot be read', async () => {
  const folder = newFolder();
  const writer = newWriter(folder, 'a', START + 10n * SECOND);
  appendRows(writer, [order(START)]);
  setInProgress(writer, [{ ...order(START + SECOND), transaction: 'order-2' }]);
  writer.close();
  mkdirSync(`${folder}/imported`);
  writeFileSync(`${folder}/imported/damaged.kreplay`, 'nothing that can be read');
  const daemon = await served(openRecordingStore(folder));
  daemon.setNow(START + 10n * SECOND);
  for (const path of ['/api/transactions', '/api/heatmap?of=transactions', '/api/transactions/order-1']) {
    const { status, json } = await daemon.get(path);
    expect([path, status, json.coverage.complete, json.coverage.unreadable?.length]).toEqual([path, 200, false, 1]);
  }
});

const owner = { transaction: 'order-1', service: 'shop' };
const first: Row = { ...owner, at: START, duration: 1_000_000n };
const hung = (at: bigint): Row => ({ ...owner, at: START + at * SECOND, type: 'sys_sync' });
const writeBack = Array.from(
  { length: 150 },
  (_, i): Row => ({ at: START + BigInt(i), type: 'block_io', origins: [{ ...owner, bytes: 4096n }] }),
);
const twoNodes = { a: { events: [first], open: [] }, b: { events: [], open: [hung(59n)] } };
const unlisted = { count: 1, labelled: 1, sinceNs: START };
type Recorded = Record<string, { events: Row[]; open: Row[]; unlisted?: typeof unlisted }>;

test.each<[string, Recorded, bigint, boolean | null]>([
  ['no call is in progress', { a: { events: [first], open: [] } }, 1n, false],
  ['its call has not ended by the deadline', { a: { events: [first], open: [hung(20n)] } }, 59n, true],
  ['there is time left', { a: { events: [first], open: [hung(20n)] } }, 61n, false],
  ['its first call is in progress', { a: { events: [{ ...first, at: START + SECOND }], open: [hung(0n)] } }, 59n, true],
  ['a hundred requests are older', { a: { events: [first], open: [...writeBack, hung(20n)] } }, 59n, true],
  ['only requests are in progress', { a: { events: [first], open: writeBack } }, 1n, false],
  ['a call on another node has begun just now', twoNodes, 10n, null],
  ['it has lasted longer on another node', { ...twoNodes, b: { events: [], open: [hung(20n)] } }, 10n, true],
  ['it is not known whose call is in progress', { a: { events: [first], open: [], unlisted } }, 10n, null],
])('tell whether a deadline is kept: %s', async (_, recorded, timeoutSeconds, timesOut) => {
  const paths = Object.entries(recorded).map(([node, { events, open, unlisted }]) =>
    until(node, events, open, START + 60n * SECOND, unlisted),
  );
  const daemon = await served(openRecordingStore(undefined, paths));
  daemon.setNow(START + 60n * SECOND);
  const body = JSON.stringify({ transaction_id: 'order-1', timeout_ns: Number(timeoutSeconds * SECOND) });
  const headers = { 'content-type': 'application/json' };
  const { json } = await daemon.get('/api/replay/whatif', { method: 'POST', headers, body });
  expect([json.times_out, json.in_progress_times_out]).toEqual([false, timesOut]);
});
