/**
 * Tests that a transaction's duration is how long its caller waited, though the kernel writes its data back seconds
 * later.
 */
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { kreplay } from '../../command_line.ts';
import {
  appendRows,
  newFolder,
  newWriter,
  type Row,
  recorded,
  recordedOn,
  recordingPath,
  START,
} from '../../recorded.ts';
import { type Served, serve, served } from '../../served.ts';

const MS = 1_000_000n;
const SESSIONS = '/api/replay/sessions';
const [OWN, OTHER] = ['quick', 'slow'].map((transaction) => ({ transaction, bytes: 4096n }));

/** `quick` took 10 ms and is written back from its 30th second to its 32nd; `slow` took 40 ms. */
const rows: Row[] = [
  { at: START, duration: 4n * MS, transaction: 'quick', tid: 1 },
  { at: START + 5n * MS, duration: 5n * MS, transaction: 'quick', tid: 1 },
  { at: START + 20n * MS, duration: 40n * MS, transaction: 'slow', tid: 2 },
  // A kernel thread writes it back: once alone, and once together with data of another transaction.
  written({ at: START + 30_000n * MS, transaction: 'quick', origins: [OWN!] }),
  written({ at: START + 31_000n * MS, duration: 1000n * MS, origins: [OTHER!, OWN!] }),
];

function written(row: Pick<Row, 'at' | 'duration' | 'transaction'> & { origins: { bytes: bigint }[] }): Row {
  return { type: 'block_io', duration: 500n * MS, source: 'origin', tid: 9, comm: 'kworker/u8:1', ...row };
}

let app: Served;
beforeAll(async () => {
  app = await serve(recorded(rows));
});
afterAll(() => app.close());

const posted = (path: string, body: object) =>
  app.get(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });

test('the duration is that of its own events, and write-back is given separately', async () => {
  const { json } = await app.get('/api/transactions/quick');
  expect(json).toMatchObject({
    duration_ns: 10_000_000,
    event_count: 4,
    written_back: { count: 2, bytes: 8192, last_end_ns: Number(START + 32_000n * MS) },
  });
  // The slowest event is the slowest one that its caller waited for.
  expect((await app.get(`/api/events/${json.slowest_event_id}`)).json).toMatchObject({ duration_ns: 5_000_000 });
});

test('the slowest transaction is the one that took longest, not the one written back last', async () => {
  const { json } = await app.get('/api/transactions?sort=slowest');
  expect(json.transactions.map((one: { transaction_id: string }) => one.transaction_id)).toEqual(['slow', 'quick']);
  const { json: long } = await app.get('/api/transactions?min_duration_ms=11');
  expect(long.transactions).toHaveLength(1);
});

test('a deadline is missed by own events only', async () => {
  const ask = async (timeout_ms: number) =>
    (await posted('/api/replay/whatif', { transaction_id: 'quick', timeout_ns: timeout_ms * 1e6 })).json;
  expect(await ask(11)).toMatchObject({
    ...{ event_count: 4, written_back_count: 2, duration_ns: 10_000_000, replay_duration_ns: 10_000_000 },
    // The two events end 10 ms after the first began, one after the other, and the deadline is a millisecond later.
    ...{ times_out: false, after_timeout_count: 0, smallest_latency_ns: 500_001, after_timeout: [] },
  });
  expect(await ask(9)).toMatchObject({ times_out: true, after_timeout_count: 1, smallest_latency_ns: 0 });
});

test('a session states the duration of the transaction, and plays on to the write-back', async () => {
  const { json: made } = await posted(SESSIONS, { transaction_id: 'quick', timeout_ns: 11_000_000 });
  expect(made).toMatchObject({
    ...{ duration_ns: 10_000_000, replay_duration_ns: 10_000_000, replay_end_ns: 32_000_000_000 },
    ...{ event_count: 4, times_out: false, timeout_event_id: null },
  });
  const path = `${SESSIONS}/${made.session_id}`;
  const { json: timeline } = await app.get(`${path}/timeline`);
  expect(timeline.events.map((event: { after_timeout: boolean }) => event.after_timeout)).toEqual(Array(4).fill(false));
  // There are events left to play after the transaction's duration.
  const { json: sought } = await posted(`${path}/seek`, { position_ns: 20_000_000 });
  expect(sought).toMatchObject({ position_ns: 20_000_000, event_index: 2 });
  const { json: stepped } = await posted(`${path}/step`, { count: 2 });
  expect(stepped.events.map((event: { replay: object }) => event.replay)).toEqual([
    expect.objectContaining({ offset_ns: 30_000_000_000, after_timeout: false }),
    expect.objectContaining({ offset_ns: 31_000_000_000, after_timeout: false }),
  ]);
});

test('what-if on a terminal marks the events that count for no transaction', async () => {
  const { stdout } = await kreplay('whatif', 'quick', '--url', app.url, '--extra-latency', '0ms', '--output', 'table');
  expect(stdout).toContain('recorded 10.000ms, projected 10.000ms');
  expect(stdout).toContain('2 of the events write its data back to disk: no caller waited for them');
});

test('a transaction known only by its write-back has a duration of zero, and is listed', async () => {
  const one = await serve(recorded(rows.slice(3)));
  const { json } = await one.get('/api/transactions/quick');
  expect(json).toMatchObject({
    first_timestamp_ns: Number(START + 30_000n * MS),
    duration_ns: 0,
    event_count: 2,
    written_back: { count: 2, bytes: 8192 },
  });
  await one.close();
});

describe('data that is written back before the first call', () => {
  // A store into a mapped file is no call: `early` is written back twice, and then makes its calls of 10 ms.
  const early = { transaction: 'early', bytes: 4096n };
  const before: Row[] = [
    written({ at: START, transaction: 'early', origins: [early] }),
    written({ at: START + 1000n * MS, origins: [OTHER!, early] }),
  ];
  const calls: Row[] = [
    { at: START + 3000n * MS, duration: 4n * MS, transaction: 'early', tid: 1 },
    { at: START + 3005n * MS, duration: 5n * MS, transaction: 'early', tid: 1 },
    { at: START + 3006n * MS, duration: 9n * MS, transaction: 'slow', tid: 2 },
  ];
  const own = { first_timestamp_ns: Number(START + 3000n * MS), duration_ns: 10_000_000 };

  async function expectOwnTime(one: Served): Promise<void> {
    expect((await one.get('/api/transactions/early')).json).toMatchObject({
      ...own,
      event_count: 4,
      written_back: { count: 2 },
    });
    const { json } = await one.get('/api/transactions?sort=slowest');
    expect(json.transactions.map((some: object) => (some as { duration_ns: number }).duration_ns)).toEqual([
      10_000_000, 9_000_000,
    ]);
    expect((await one.get('/api/transactions?min_duration_ms=11')).json.transactions).toEqual([]);
    const body = { transaction_id: 'early', timeout_ns: 11_000_000, extra_latency_ns: 1_000_000 };
    const sent = { method: 'POST', headers: { 'content-type': 'application/json' } };
    const whatIf = (await one.get('/api/replay/whatif', { ...sent, body: JSON.stringify(body) })).json;
    expect(whatIf).toMatchObject({ duration_ns: 10_000_000, replay_duration_ns: 12_000_000, times_out: true });
    expect(whatIf.after_timeout).toMatchObject([{ replay_offset_ns: 6_000_000 }]);
    const many = JSON.stringify({ where: {}, timeout_ns: 11_000_000 });
    const curves = (await one.get('/api/replay/whatif', { ...sent, body: many })).json.transactions;
    expect(curves.find((some: { transaction_id: string }) => some.transaction_id === 'early').curve).toEqual([
      { events: 2, end_ns: 10_000_000 },
    ]);
  }

  test('is no part of its duration, however it was committed', async () => {
    for (const flushes of [
      [[...before, ...calls]],
      [before, calls],
      [[before[0]!], [before[1]!, calls[0]!], calls.slice(1)],
    ]) {
      const folder = newFolder();
      const writer = newWriter(folder, 'node-a');
      for (const some of flushes) {
        appendRows(writer, some);
        writer.flush();
      }
      writer.close();
      const one = await served(folder);
      await expectOwnTime(one);
      await one.close();
    }
  });

  test('nor if another node wrote it back', async () => {
    const folders = [recordedOn('node-a', calls), recordedOn('node-b', before)];
    const one = await served(openRecordingStore(undefined, folders.map(recordingPath)));
    await expectOwnTime(one);
    await one.close();
  });
});
