/** Tests pins over HTTP on recordings that an agent is writing, has closed, or left behind when it was killed. */
import { chmodSync, copyFileSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import type { RetentionLimits } from '../../../agent/recording/retain/retention.ts';
import { openWriter, type RecordingWriter } from '../../../agent/recording/write/writer.ts';
import { addTimeTexts, formatTime } from '../../../daemon/base/time_text.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { blockOf } from '../../agent/recording/fixture.ts';
import { traced, WAYS, writeImage } from '../../agent/recording/power/disk.ts';
import { FLUSH_ROWS } from '../../agent/recording/power/events.ts';
import { exported } from '../export/exported.ts';
import { appendRows, newFolder, newWriter, type Row, recorded, recordedOn, recordingPath, START } from '../recorded.ts';
import { type Sent, type Served, served } from '../served.ts';

const S = 1_000_000_000n;

const pathOf = (id: string) => `/api/transactions/${encodeURIComponent(id)}/pin`;

function pin(daemon: Served, id: string, body?: string) {
  const sent: Sent = { method: 'POST' };
  return daemon.get(
    pathOf(id),
    body === undefined ? sent : { ...sent, body, headers: { 'content-type': 'application/json' } },
  );
}

const unpin = (daemon: Served, id: string) => daemon.get(pathOf(id), { method: 'DELETE' });

async function pinnedIds(daemon: Served): Promise<string[]> {
  const { json } = await daemon.get('/api/pins');
  return json.pins.map(({ transaction_id }: { transaction_id: string }) => transaction_id);
}

async function eventCount(daemon: Served, id: string): Promise<number> {
  return (await daemon.lines(`/api/events?transaction_id=${encodeURIComponent(id)}`)).length;
}

const TX: Row[] = [{ at: START + 60n * S, transaction: 'tx' }];

test('a pin is created, listed, shown and removed', async () => {
  const daemon = await served(recorded(TX));
  expect((await daemon.get('/api/pins')).json).toEqual({ pins: [] });
  expect((await daemon.get('/api/transactions/tx')).json.pinned).toBe(false);

  daemon.setNow(START + 3600n * S);
  const { status, text } = await pin(daemon, 'tx');
  const from = START + 50n * S;
  const pinned_at = '2025-11-21T01:00:00.000Z';
  expect([status, text]).toEqual([
    200,
    `{"transaction_id":"tx","from":${from},"from_time":"${formatTime(from)}","pinned_at":"${pinned_at}","nodes":["test-node"]}`,
  ]);
  expect((await daemon.get('/api/pins')).text).toBe(
    `{"pins":[{"transaction_id":"tx","from":${from},"from_time":"${formatTime(from)}","pinned_at":"${pinned_at}","node":"test-node"}]}`,
  );
  expect((await daemon.get('/api/transactions/tx')).json.pinned).toBe(true);

  const gone = await unpin(daemon, 'tx');
  expect([gone.status, gone.text]).toEqual([204, '']);
  expect((await daemon.get('/api/pins')).json).toEqual({ pins: [] });
  expect((await daemon.get('/api/transactions/tx')).json.pinned).toBe(false);
  const again = await unpin(daemon, 'tx');
  expect([again.status, again.json.code]).toEqual([404, 'not_pinned']);
});

test('pinning again keeps the longer time and the first date', async () => {
  const daemon = await served(recorded(TX));
  const first = await pin(daemon, 'tx', '{"before_ms":2000.000001}');
  expect(first.text).toContain(`"from":${START + 58n * S - 1n},`);
  daemon.setNow(START + 5n * S);
  expect((await pin(daemon, 'tx', '{"before_ms":0}')).text).toBe(first.text);
  const longer = await pin(daemon, 'tx', '{"before_ms":86400000}');
  const from = START + 60n * S - 86_400n * S;
  expect(longer.text).toContain(
    `"from":${from},"from_time":"${formatTime(from)}","pinned_at":"2025-11-21T00:00:00.000Z"`,
  );
  expect(await pinnedIds(daemon)).toEqual(['tx']);
});

test('an unrecorded transaction cannot be pinned', async () => {
  const daemon = await served(recorded(TX));
  const { status, json } = await pin(daemon, 'other');
  expect([status, json.code]).toEqual([404, 'transaction_not_found']);
  expect((await unpin(daemon, 'other')).json.code).toBe('not_pinned');
  const missing = await served(newFolder());
  expect((await pin(missing, 'tx')).json.code).toBe('recording_missing');
  expect((await unpin(missing, 'tx')).json.code).toBe('recording_missing');
});

test.each([
  ['{"before_ms":-1}', 'invalid_body', '/before_ms'],
  ['{"before_ms":86400000.000001}', 'invalid_body', '/before_ms'],
  ['{"before_ms":9007199254740993}', 'invalid_body', '/before_ms'],
  ['{"before_ms":0.0000001}', 'invalid_body', '/before_ms'],
  ['{"before_ms":1e400}', 'invalid_body', '/before_ms'],
  ['{"before_ms":"10s"}', 'invalid_body', '/before_ms'],
  ['{"before_ms":null}', 'invalid_body', '/before_ms'],
  ['{"before":1}', 'invalid_body', '/before'],
  ['[]', 'invalid_body', ''],
  ['{"before_ms":', 'malformed_json', undefined],
])('%s is a 400 %s', async (body, code, pointer) => {
  const daemon = await served(recorded(TX));
  const { status, json } = await pin(daemon, 'tx', body);
  expect([status, json.code, json.errors?.[0].pointer]).toEqual([400, code, pointer]);
  expect(await pinnedIds(daemon)).toEqual([]);
});

test('pages of other sites, forms and wrong methods pin nothing', async () => {
  const daemon = await served(recorded(TX));
  const outcome = async (sent: Sent, path = pathOf('tx')) => {
    const { status, json, headers } = await daemon.get(path, sent);
    return [status, json.code, headers.allow];
  };
  for (const method of ['POST', 'DELETE']) {
    for (const headers of [{ origin: 'http://evil.example' }, { 'sec-fetch-site': 'cross-site' }])
      expect(await outcome({ method, headers })).toEqual([403, 'forbidden_origin', undefined]);
    expect(await outcome({ method }, `${pathOf('tx')}?before_ms=1`)).toEqual([400, 'invalid_parameter', undefined]);
  }
  const form = { 'content-type': 'text/plain' };
  expect(await outcome({ method: 'POST', headers: form, body: '{}' })).toEqual([
    415,
    'unsupported_media_type',
    undefined,
  ]);
  for (const method of ['GET', 'PUT', 'PATCH'])
    expect(await outcome({ method })).toEqual([405, 'method_not_allowed', 'POST, DELETE']);
  expect(await outcome({ method: 'POST' }, '/api/pins')).toEqual([405, 'method_not_allowed', 'GET, HEAD']);
  expect((await daemon.get('/api/pins?limit=1')).json.code).toBe('invalid_parameter');
  expect(await outcome({ method: 'POST' }, '/api/transactions/%ff/pin')).toEqual([400, 'malformed_request', undefined]);
  expect(await pinnedIds(daemon)).toEqual([]);
});

test('ids may contain any characters', async () => {
  const ids = [
    'a/b',
    '..',
    '%2F',
    'a?b#c&d=e',
    'grüße 💥',
    "'; DROP TABLE pin; --",
    '__proto__',
    'pin',
    'x'.repeat(500),
  ];
  const daemon = await served(recorded(ids.map((transaction, i) => ({ at: START + BigInt(i), transaction }))));
  for (const id of ids) {
    const { status, json } = await pin(daemon, id);
    expect([status, json.transaction_id]).toEqual([200, id]);
    expect((await daemon.get(pathOf(id).slice(0, -'/pin'.length))).json.pinned).toBe(true);
  }
  expect((await pinnedIds(daemon)).sort()).toEqual(ids.toSorted());
  for (const id of ids) expect((await unpin(daemon, id)).status).toBe(204);
  expect(await pinnedIds(daemon)).toEqual([]);
});

test('a pin holds whether an agent is writing, has ended or was killed', async () => {
  const folder = newFolder();
  const daemon = await served(folder);
  const writer = newWriter(folder);
  appendRows(writer, TX);
  expect((await pin(daemon, 'tx')).status).toBe(200);
  appendRows(writer, [{ at: START + 61n * S, transaction: 'later' }]);
  expect((await pin(daemon, 'later')).status).toBe(200);

  const killed = newFolder();
  for (const end of ['', '-wal']) copyFileSync(recordingPath(folder) + end, recordingPath(killed) + end);
  const other = await served(killed);
  expect(await pinnedIds(other)).toEqual(['later', 'tx']);
  expect((await unpin(other, 'tx')).status).toBe(204);
  expect(await pinnedIds(other)).toEqual(['later']);

  writer.close();
  expect(await pinnedIds(daemon)).toEqual(['later', 'tx']);
  expect((await unpin(daemon, 'later')).status).toBe(204);
  newWriter(folder).close();
  expect(await pinnedIds(daemon)).toEqual(['tx']);
});

test('concurrent pins', async () => {
  const ids = Array.from({ length: 20 }, (_, i) => `tx-${i}`);
  const folder = newFolder();
  const writer = newWriter(folder);
  appendRows(
    writer,
    ids.map((transaction, i) => ({ at: START + BigInt(i), transaction })),
  );
  const [daemon, second] = [await served(folder), await served(folder)];
  const answers = await Promise.all(ids.flatMap((id) => [pin(daemon, id), pin(second, id), pin(daemon, 'tx-0')]));
  expect(answers.map(({ status }) => status)).toEqual(Array(60).fill(200));
  expect((await pinnedIds(second)).sort()).toEqual(ids.toSorted());
  const gone = await Promise.all(ids.flatMap((id) => [unpin(daemon, id), unpin(second, id)]));
  expect(gone.map(({ status }) => status).sort()).toEqual([...Array(20).fill(204), ...Array(20).fill(404)]);
  writer.close();
});

describe('several recordings', () => {
  const onNode = (node: string, at: bigint, transaction = 'tx') => recordedOn(node, [{ at, transaction }]);

  test('each recording that holds the transaction keeps it', async () => {
    const [a, b, c] = [onNode('a', START + 20n * S), onNode('b', START + 15n * S), onNode('c', START, 'other')];
    const copy = join(newFolder(), 'copy.kreplay');
    copyFileSync(recordingPath(a!), copy);
    const daemon = await served(openRecordingStore(undefined, [...[a, b, c].map((one) => recordingPath(one!)), copy]));
    const { text } = await pin(daemon, 'tx');
    expect(text).toContain(`"from":${START + 5n * S},`);
    expect(JSON.parse(text).nodes).toEqual(['a', 'b']);
    const { json } = await daemon.get('/api/pins');
    expect(json.pins.map(({ node }: { node: string }) => node).sort()).toEqual(['a', 'b']);
    expect(await pinnedIds(await served(copy))).toEqual(['tx']);
    expect((await unpin(daemon, 'tx')).status).toBe(204);
    for (const path of [a!, b!, copy]) expect(await pinnedIds(await served(path))).toEqual([]);
  });

  test('imports lose nothing, so nothing is written to them', async () => {
    const data = onNode('live', START);
    const imported = onNode('far', START);
    const far = await served(imported);
    await pin(far, 'tx');
    appendRowsTo(imported, [{ at: START + S, transaction: 'only-there' }]);
    mkdirSync(join(data, 'imported'));
    renameSync(recordingPath(imported), join(data, 'imported', 'far.kreplay'));
    const daemon = await served(data);
    expect(await pinnedIds(daemon)).toEqual([]);
    expect((await pin(daemon, 'tx')).json.nodes).toEqual(['live']);
    const { status, json } = await pin(daemon, 'only-there');
    expect([status, json]).toEqual([
      200,
      { transaction_id: 'only-there', ...addTimeTexts({ from: null }), pinned_at: null, nodes: [] },
    ]);
    expect((await daemon.get('/api/transactions/only-there')).json.pinned).toBe(false);
    expect((await unpin(daemon, 'only-there')).json.code).toBe('not_pinned');
    expect(await pinnedIds(daemon)).toEqual(['tx']);
  });

  test('a recording that no agent writes is left unchanged like an import', async () => {
    const live = onNode('live', START);
    const { path: bundle } = await exported(onNode('far', START), 'bundle');
    chmodSync(bundle, 0o444);
    const before = readFileSync(bundle);
    const daemon = await served(openRecordingStore(live, [bundle]));
    expect((await pin(daemon, 'tx')).json.nodes).toEqual(['live']);
    expect((await unpin(daemon, 'tx')).status).toBe(204);
    expect(readFileSync(bundle)).toEqual(before);
    const only = await served(openRecordingStore(undefined, [bundle]));
    expect((await pin(only, 'tx')).json).toMatchObject({ from: null, nodes: [] });
    expect((await unpin(only, 'tx')).json.code).toBe('not_pinned');
  });

  test('a failed pin undoes the preceding ones', async () => {
    const [a, b] = [onNode('a', START + 20n * S), onNode('b', START + 20n * S)];
    const one = await served(a!);
    const daemon = await served(openRecordingStore(undefined, [a!, b!].map(recordingPath)));
    // No pin fits into a recording of one byte.
    const setLimit = (bytes: number) => {
      const database = new Database(recordingPath(b!));
      database.prepare("UPDATE meta SET value = ? WHERE key = 'retain_bytes'").run(bytes);
      database.close();
    };
    setLimit(1);
    expect((await pin(daemon, 'tx')).json.code).toBe('pins_full');
    expect(await pinnedIds(daemon)).toEqual([]);

    await pin(one, 'tx', '{"before_ms":5000}');
    const before = (await one.get('/api/pins')).text;
    daemon.setNow(START + 7n * S);
    expect((await pin(daemon, 'tx', '{"before_ms":9000}')).json.code).toBe('pins_full');
    expect((await one.get('/api/pins')).text).toBe(before);
    setLimit(1 << 30);
    expect((await pin(daemon, 'tx')).json.nodes).toEqual(['a', 'b']);
  });
});

function appendRowsTo(folder: string, rows: readonly Row[]): void {
  const writer = newWriter(folder, 'far');
  appendRows(writer, rows);
  writer.close();
}

describe('while the recording is at its limit', () => {
  const BATCH_ROWS = 4096;
  const block = blockOf(Array.from({ length: BATCH_ROWS }, () => ({})));
  let clock: { nowNs: bigint };
  let batches: number;

  function newLimitedWriter(folder: string, retention: RetentionLimits): RecordingWriter {
    [clock, batches] = [{ nowNs: START }, 0];
    const origin = { node: 'n', bootId: 'b', machineId: 'm' };
    return openWriter({ path: recordingPath(folder), ...origin, nowNs: () => clock.nowNs, retention });
  }

  /** Writes one transaction a second, with incompressible events. */
  function writeSeconds(writer: RecordingWriter, count: number): void {
    const values = (name: string) => block.columns.get(name)!;
    const noisy = ['duration_ns', 'result', 'pid', 'tid', 'sys_write.bytes_requested', 'sys_write.fd'].map(
      (name) => new Uint32Array(values(name).buffer),
    );
    for (let i = 0; i < count; i++) {
      const context = writer.contextId({ transactionId: `tx-${batches}`, traceId: null, spanId: null });
      values('context').fill(context as never);
      for (let row = 0; row < BATCH_ROWS; row++) values('timestamp_ns')[row] = clock.nowNs + BigInt(row);
      for (const [at, words] of noisy.entries()) fillWithNoise(words, batches * noisy.length + at);
      writer.append(block);
      clock.nowNs += S;
      batches++;
      writer.flush();
    }
  }

  function fillWithNoise(words: Uint32Array, seed: number): void {
    let state = Math.imul(seed + 1, 0x9e3779b1) | 1;
    for (let i = 0; i < words.length; i++) {
      state ^= state << 13;
      state ^= state >>> 17;
      state ^= state << 5;
      words[i] = state;
    }
  }

  test('a pinned transaction outlives the others until it is unpinned', async () => {
    const folder = newFolder();
    const writer = newLimitedWriter(folder, { bytes: 8 << 20 });
    const daemon = await served(folder);
    writeSeconds(writer, 45);
    const full = await pin(daemon, 'tx-44', '{"before_ms":60000}');
    expect([full.status, full.json.code]).toEqual([409, 'pins_full']);
    expect(full.json.detail).toMatch(/of the recording's 8 MiB, at most half is allowed: unpin others, export them/);
    expect(await pinnedIds(daemon)).toEqual([]);

    expect((await pin(daemon, 'tx-40', '{"before_ms":2000}')).status).toBe(200);
    writeSeconds(writer, 80);
    expect((await daemon.get('/api/transactions/tx-40')).json).toMatchObject({ event_count: BATCH_ROWS, pinned: true });
    for (const kept of ['tx-38', 'tx-39', 'tx-40']) expect(await eventCount(daemon, kept)).toBe(BATCH_ROWS);
    for (const gone of ['tx-36', 'tx-42']) {
      expect(await eventCount(daemon, gone)).toBe(0);
      expect((await pin(daemon, gone)).json.code).toBe('transaction_not_found');
    }
    expect((await unpin(daemon, 'tx-40')).status).toBe(204);
    writeSeconds(writer, 5);
    expect(await eventCount(daemon, 'tx-40')).toBe(0);
    writer.close();
  });
});

test('a loss of power takes no pin that was acknowledged, nor what is pinned', async () => {
  const folder = newFolder();
  const pinner = traced([join(import.meta.dirname, 'pinner.ts'), folder], folder);
  await pinner.until((line) => line.endsWith('pinned'));
  const calls = await pinner.kill();
  const pinned = calls.findIndex((call) => call.kind === 'said');
  for (const way of WAYS) {
    const image = newFolder();
    writeImage(image, calls.slice(0, pinned + 1), way, Math.random);
    const daemon = await served(image);
    expect([way, await pinnedIds(daemon), await eventCount(daemon, 'pinned')]).toEqual([way, ['pinned'], FLUSH_ROWS]);
  }
});
