/** Tests that an answer reports what its recording lacks in the window of the query, and nothing of other windows. */

import { readFileSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { stringify } from '../../../daemon/base/exact_json.ts';
import { addTimeTexts } from '../../../daemon/base/time_text.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { kreplay } from '../command_line.ts';
import {
  NODE,
  newFolder,
  newWriter,
  type Row,
  recorded,
  recordedOn,
  recordingPath,
  START,
  setMeta,
} from '../recorded.ts';
import { type Served, serve, served as servedHere } from '../served.ts';

const S = 1_000_000_000n;

let served: Served;
beforeAll(async () => {
  const folder = recorded([{ at: START }, { at: START + 100n * S }], (writer) => {
    const lose = (from: bigint, to: bigint, count: number, cause: 'ring_full' | 'no_memory' = 'ring_full') =>
      writer.recordLoss({ cause, eventType: 'sys_write', count, fromNs: START + from * S, toNs: START + to * S });
    lose(10n, 11n, 7);
    lose(11n, 12n, 5);
    lose(11n, 12n, 1, 'no_memory');
    lose(20n, 21n, 100);
  });
  served = await serve(folder);
});
afterAll(() => served.close());

/** The end of the recording: the same in all these answers. */
const RECORDED_UNTIL = stringify(addTimeTexts({ recorded_until: START })).slice(1, -1);
const UNTIL = `,${RECORDED_UNTIL},"nodes":[{"node":"${NODE}",${RECORDED_UNTIL}}],"node_count":1`;
/** The sums of losses, which stand before the gaps. */
const LOSSES = /"losses":.*?,(?="gaps")/;

async function coverage(query: string): Promise<string> {
  const { text } = await served.get(`/api/events?coverage=full&${query}`);
  return text
    .slice(text.indexOf('"coverage":') + 11, -1)
    .replace(UNTIL, '')
    .replace(LOSSES, '');
}

const gap = (from: bigint, to: bigint, lost: number, cause = 'ring_full') =>
  stringify({ ...addTimeTexts({ from: START + from * S, to: START + to * S }), lost, cause, node: NODE });

test('all losses are listed, and adjacent gaps of one cause as one', async () => {
  expect(await coverage('')).toBe(
    `{"complete":false,"lost":113,"gaps":[${[gap(10n, 12n, 12), gap(11n, 12n, 1, 'no_memory'), gap(20n, 21n, 100)]}]}`,
  );
});

test('each gap has its node, and touching gaps of two nodes stay apart', async () => {
  const lose = (from: bigint, to: bigint) => (writer: ReturnType<typeof newWriter>) =>
    writer.recordLoss({ cause: 'ring_full', eventType: null, count: 3, fromNs: START + from, toNs: START + to });
  const folders = [recordedOn('a', [{ at: START }], lose(0n, 5n)), recordedOn('b', [{ at: START }], lose(5n, 9n))];
  const daemon = await servedHere(openRecordingStore(undefined, folders.map(recordingPath)));
  const nodesOf = async (query: string) => {
    const { coverage } = (await daemon.get(`/api/events?coverage=full&${query}`)).json;
    return [coverage.lost, ...coverage.gaps.map(({ node, lost }: { node: string; lost: number }) => `${node} ${lost}`)];
  };
  expect(await nodesOf('')).toEqual([6, 'a 3', 'b 3']);
  expect(await nodesOf('node=b')).toEqual([3, 'b 3']);
  expect(await nodesOf('exclude_node=b')).toEqual([3, 'a 3']);
  expect(await nodesOf('exclude_node=a,b')).toEqual([0]);
  expect(await nodesOf('node=a,x,y')).toEqual([3, 'x 0', 'y 0', 'a 3']);
  expect(await nodesOf('node=a,x,y&exclude_node=x')).toEqual([3, 'y 0', 'a 3']);
});

test('a node in a list is recognised in any notation of the list', async () => {
  for (const list of [`${NODE},${NODE}`, `+${NODE},+${NODE}`, `${NODE}&node=${NODE}`])
    expect(await coverage(`node=${list}`)).toBe(await coverage(''));
});

test('only losses within the window are listed', async () => {
  expect(await coverage(`from=${START + 20n * S}`)).toBe(
    `{"complete":false,"lost":100,"gaps":[${gap(20n, 21n, 100)}]}`,
  );
  expect(await coverage(`to=${START + 10n * S}`)).toBe('{"complete":true,"lost":0,"gaps":[]}');
  expect(await coverage(`from=${START + 30n * S}`)).toBe('{"complete":true,"lost":0,"gaps":[]}');
});

async function gapsOf(daemon: Served, query: string): Promise<[from: bigint, to: bigint, cause: string][]> {
  const { text } = await daemon.get(`/api/events?coverage=full&${query}`);
  const gaps = text.matchAll(/"from":(\d+),"from_time":"[^"]+","to":(\d+),"to_time":"[^"]+","lost":0,"cause":"(\w+)"/g);
  return [...gaps].map(([, from, to, cause]) => [BigInt(from!) - START, BigInt(to!) - START, cause!]);
}

test('time without a running agent is a gap', async () => {
  const daemon = await servedHere(recorded([{ at: START }]));
  daemon.setNow(START + 50n * S);
  const stopped = [0n, 50n * S, 'agent_stopped'];
  expect(await gapsOf(daemon, '')).toEqual([stopped]);
  expect(await gapsOf(daemon, `to=${START}`)).toEqual([]);
  expect(await gapsOf(daemon, `to=${START + S}`)).toEqual([[0n, S, 'agent_stopped']]);
  expect(await gapsOf(daemon, `from=${START - S}`)).toEqual([[-S, 0n, 'not_recorded_yet'], stopped]);
  expect(await gapsOf(daemon, `from=${START - 2n * S}&to=${START - S}`)).toEqual([[-2n * S, -S, 'not_recorded_yet']]);
  expect(await gapsOf(daemon, `from=${START + 60n * S}`)).toEqual([]);
});

test('a running agent leaves no gap, and a silent one does', async () => {
  const folder = newFolder();
  const writer = newWriter(folder);
  const daemon = await servedHere(folder);
  daemon.setNow(START + 4n * S);
  expect(await gapsOf(daemon, '')).toEqual([]);
  expect(await gapsOf(daemon, 'from=-4s')).toEqual([]);
  // The requested window reaches past the last commit.
  expect(await gapsOf(daemon, 'from=-3s')).toEqual([[S, 4n * S, 'not_written_yet']]);
  expect(await gapsOf(daemon, 'to=-1s')).toEqual([[0n, 3n * S, 'not_written_yet']]);
  expect(await gapsOf(daemon, 'to=-4s')).toEqual([]);
  daemon.setNow(START + 40n * S);
  expect(await gapsOf(daemon, 'from=-10s')).toEqual([[30n * S, 40n * S, 'not_written_yet']]);
  expect(await gapsOf(daemon, '')).toEqual([[0n, 40n * S, 'not_written_yet']]);
  writer.close();
  expect(await gapsOf(daemon, '')).toEqual([[0n, 40n * S, 'agent_stopped']]);
});

test('each node has its own gaps, and recordings of one node are merged', async () => {
  const folders = [recordedOn('a', []), recordedOn('a', []), recordedOn('b', [])];
  const spans = [
    [0n, 10n],
    [20n, 30n],
    [0n, 30n],
  ];
  for (const [i, folder] of folders.entries()) {
    const database = new Database(recordingPath(folder));
    const set = database.prepare('UPDATE meta SET value = CAST(? AS INTEGER) WHERE key = ?');
    set.run(START + spans[i]![0]! * S, 'created_ns');
    set.run(START + spans[i]![1]! * S, 'alive_ns');
    database.close();
  }
  const daemon = await servedHere(openRecordingStore(undefined, folders.map(recordingPath)));
  daemon.setNow(START + 30n * S);
  expect(await gapsOf(daemon, '')).toEqual([[10n * S, 20n * S, 'agent_stopped']]);
  expect(await gapsOf(daemon, 'node=b')).toEqual([]);
  expect(await gapsOf(daemon, 'node=a&from=-18s&to=-12s')).toEqual([[12n * S, 18n * S, 'agent_stopped']]);
  expect(await gapsOf(daemon, 'node=b,c&from=-1s')).toEqual([[29n * S, 30n * S, 'not_recorded_yet']]);
});

test('a recording without an end time ends with its last event', async () => {
  const folder = recorded([{ at: START }, { at: START + 5n * S }]);
  const database = new Database(recordingPath(folder));
  database.exec("DELETE FROM meta WHERE key = 'alive_ns'");
  database.close();
  const daemon = await servedHere(folder);
  daemon.setNow(START + 9n * S);
  expect(await gapsOf(daemon, `node=${NODE}`)).toEqual([[5n * S, 9n * S, 'agent_stopped']]);
});

test('a query with an end includes what follows a named file', async () => {
  const path = recordingPath(recorded([{ at: START, transaction: 'tx' }, { at: START + 5n * S }]));
  const daemon = await servedHere(openRecordingStore(undefined, [path]));
  daemon.setNow(START + 9n * S);
  for (const query of ['', `from=${START}`, 'transaction_id=tx']) expect(await gapsOf(daemon, query)).toEqual([]);
  expect(await gapsOf(daemon, `from=${START}&to=${START + 9n * S}`)).toEqual([[0n, 9n * S, 'agent_stopped']]);
});

test('a transaction that ended long before its agent is complete except for losses in its own time', async () => {
  const rows = [
    { at: START, duration: S, transaction: 'whole' },
    { at: START + 4n * S, duration: S, transaction: 'lossy' },
    { at: START + 9n * S, duration: S, transaction: 'cut' },
  ];
  const folder = recorded(rows, (writer) =>
    writer.recordLoss({ cause: 'ring_full', eventType: null, fromNs: START + 4n * S, toNs: START + 5n * S, count: 7 }),
  );
  const database = new Database(recordingPath(folder));
  database.prepare("UPDATE meta SET value = CAST(? AS INTEGER) WHERE key = 'alive_ns'").run(START + 10n * S);
  database.close();
  const daemon = await servedHere(folder);
  daemon.setNow(START + 50n * S);
  const coverageOf = async (id: string) => (await daemon.get(`/api/events?transaction_id=${id}`)).json.coverage;
  expect(await coverageOf('whole')).toMatchObject({ complete: true, lost: 0, losses: [] });
  expect(await coverageOf('lossy')).toMatchObject({ complete: false, lost: 7, losses: [{ cause: 'ring_full' }] });
  // Its last event ended at the moment its agent did.
  expect((await coverageOf('cut')).losses.map(({ cause }: { cause: string }) => cause)).toContain('agent_stopped');
});

const DETAILS = ['/api/events?transaction_id=tx', '/api/stats?transaction_id=tx', '/api/transactions/tx'];

/** Causes of the gaps in each answer about the transaction `tx`. */
async function gapsOfTx(daemon: Served, paths = DETAILS): Promise<string[][]> {
  const answers = await Promise.all(paths.map((path) => daemon.get(path)));
  return answers.map(({ json }) => json.coverage.losses.map(({ cause }: { cause: string }) => cause));
}

const inEachAnswer = (...causes: string[]) => DETAILS.map(() => causes);

describe('a transaction that may have continued, or begun earlier, without being recorded', () => {
  const row = { at: START, duration: S, transaction: 'tx' };

  async function restarted(killedNs: bigint, startedNs: bigint, rows: readonly Row[] = [row]): Promise<Served> {
    const folder = recorded(rows);
    setMeta(recordingPath(folder), { alive_ns: killedNs, ended: 0n });
    const writer = newWriter(folder, NODE, startedNs);
    writer.close();
    setMeta(recordingPath(folder), { alive_ns: START + 30n * S });
    const daemon = await servedHere(folder);
    daemon.setNow(START + 50n * S);
    return daemon;
  }

  test('the agent was killed within a second of its end, and started again', async () => {
    const daemon = await restarted(START + 2n * S - 1n, START + 5n * S);
    expect(await gapsOfTx(daemon)).toEqual(inEachAnswer('agent_killed'));
    // The window lies inside the gap.
    expect(await gapsOf(daemon, `transaction_id=tx&from=${START + 3n * S}&to=${START + 4n * S}`)).toHaveLength(1);
    expect(await gapsOf(daemon, `transaction_id=tx&to=${START + S}`)).toEqual([]);
    expect(await gapsOf(daemon, `transaction_id=tx&from=${START + 6n * S}`)).toEqual([]);
  });

  test('the agent ran for a second more, and was killed later', async () => {
    const daemon = await restarted(START + 2n * S, START + 5n * S);
    expect(await gapsOfTx(daemon)).toEqual(inEachAnswer());
    for (const window of ['', `&from=${START}`, `&to=${START + 40n * S}`, `&from=${START + 3n * S}`])
      expect(await gapsOf(daemon, `transaction_id=tx${window}`)).toEqual([]);
  });

  test('the first event was within a second of a gap', async () => {
    const rows = [{ at: START }, { ...row, at: START + 5n * S }];
    expect(await gapsOfTx(await restarted(START + S, START + 4n * S + 1n, rows))).toEqual(inEachAnswer('agent_killed'));
    expect(await gapsOfTx(await restarted(START + S, START + 4n * S, rows))).toEqual(inEachAnswer());
  });

  test.each([0n, S - 1n])('events were lost %d ns after the last event', async (after) => {
    const fromNs = START + S + after;
    const loss = { cause: 'ring_full', eventType: null, fromNs, toNs: fromNs + S, count: 7 } as const;
    const later = { ...loss, fromNs: fromNs + 5n * S, toNs: fromNs + 6n * S };
    const folder = recorded([row], (writer) => {
      for (const one of [loss, later]) writer.recordLoss(one);
    });
    setMeta(recordingPath(folder), { alive_ns: START + 30n * S });
    const daemon = await servedHere(folder);
    daemon.setNow(START + 50n * S);
    // The later loss does not count: after a second without events the transaction has ended.
    expect(await gapsOfTx(daemon)).toEqual(inEachAnswer('ring_full'));
    for (const path of DETAILS.slice(0, 2)) expect((await daemon.get(path)).json.coverage.lost).toBe(7);
  });

  test('events were lost before the first event, and others less than a second before those', async () => {
    const lose = (from: bigint, to: bigint, count: number) =>
      ({ cause: 'ring_full', eventType: null, fromNs: START + from, toNs: START + to, count }) as const;
    const losses = [lose(0n, S, 1), lose(5n * S, 6n * S, 2), lose(6n * S + S / 2n, 7n * S, 4)];
    const rows = [{ at: START }, { ...row, at: START + 7n * S + S / 2n }];
    const folder = recorded(rows, (writer) => {
      for (const one of losses) writer.recordLoss(one);
    });
    setMeta(recordingPath(folder), { alive_ns: START + 30n * S });
    const daemon = await servedHere(folder);
    daemon.setNow(START + 50n * S);
    expect(await gapsOfTx(daemon)).toEqual(inEachAnswer('ring_full'));
    // The earliest loss does not count: a second without a loss and without an event came after it.
    for (const path of DETAILS.slice(0, 2)) expect((await daemon.get(path)).json.coverage.lost).toBe(6);
  });

  test.each(['live', 'named'])('another node continues after the %s one was killed', async (source) => {
    const folder = recorded([row]);
    setMeta(recordingPath(folder), { alive_ns: START + S, ended: 0n });
    const other = recordingPath(recordedOn('other', [{ ...row, duration: 10n }]));
    setMeta(other, { alive_ns: START + 30n * S });
    const store =
      source === 'live'
        ? openRecordingStore(folder, [other])
        : openRecordingStore(undefined, [recordingPath(folder), other]);
    const daemon = await servedHere(store);
    daemon.setNow(START + 50n * S);
    const cause = source === 'live' ? 'agent_killed' : 'agent_stopped';
    expect(await gapsOfTx(daemon)).toEqual(inEachAnswer(cause));
    expect(await gapsOf(daemon, 'transaction_id=tx&node=other')).toEqual([]);
    expect(await gapsOf(daemon, `transaction_id=tx&node=${NODE}`)).toEqual([[S, 50n * S, cause]]);
  });

  test('the agent set the recording aside, and went on in another one', async () => {
    const folder = recorded([{ at: START + 5n * S }]);
    setMeta(recordingPath(folder), { created_ns: START + 4n * S, alive_ns: START + 30n * S });
    const damaged = recordingPath(recorded([row]));
    setMeta(damaged, { alive_ns: START + S, ended: 0n });
    renameSync(damaged, join(folder, 'recording.damaged-20251121T000000Z.kreplay'));
    const daemon = await servedHere(folder);
    daemon.setNow(START + 50n * S);
    expect(await gapsOfTx(daemon)).toEqual(inEachAnswer('recording_damaged'));
  });

  test('a node without events of the transaction was recorded at another time', async () => {
    const folder = recorded([{ ...row, at: START + 5n * S }]);
    setMeta(recordingPath(folder), { alive_ns: START + 30n * S });
    const other = recordingPath(recordedOn('other', [{ at: START + 20n * S }]));
    setMeta(other, { created_ns: START + 20n * S, alive_ns: START + 21n * S });
    const daemon = await servedHere(openRecordingStore(folder, [other]));
    daemon.setNow(START + 50n * S);
    expect(await gapsOfTx(daemon)).toEqual(inEachAnswer());
    for (const window of [`from=${START}`, `from=${START + 5n * S}&to=${START + 9n * S}`]) {
      const { coverage } = (await daemon.get(`/api/events?transaction_id=tx&${window}`)).json;
      expect(coverage).toMatchObject({ complete: true, nodes: [{ node: NODE }] });
    }
  });
});

const BOOT_ID = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

test.each([
  ['closed', 1n, BOOT_ID],
  ['killed', 0n, BOOT_ID],
  ['closed before this boot', 1n, 'another'],
])('an agent that was %s before the clock was set back has not recorded since then', async (_, ended, bootId) => {
  const path = recordingPath(recorded([{ at: START }]));
  const nowNs = BigInt(Date.now()) * 1_000_000n;
  // The agent ended a minute ago, when the wall clock was an hour ahead.
  const minuteAgoNs = process.hrtime.bigint() - 60n * S;
  setMeta(path, { created_ns: START, alive_ns: nowNs + 3540n * S, ended, alive_monotonic_ns: minuteAgoNs });
  const database = new Database(path);
  database.prepare("UPDATE meta SET value = ? WHERE key = 'alive_boot_id'").run(bootId);
  database.close();
  const daemon = await servedHere(dirname(path));
  daemon.setNow(nowNs);
  const { gaps, recorded_until } = (await daemon.get('/api/events?from=-5m&coverage=full')).json.coverage;
  expect(gaps).toMatchObject([{ cause: ended === 1n ? 'agent_stopped' : 'agent_killed' }]);
  const agoNs = (ns: number) => Number(nowNs) - ns;
  expect(agoNs(gaps[0].to)).toBeLessThan(1e9);
  if (bootId === BOOT_ID) expect(Math.abs(agoNs(gaps[0].from) - 60e9)).toBeLessThan(5e9);
  expect(agoNs(recorded_until)).toBeGreaterThan(50e9);
});

test.each(['transactions', 'stats', 'events'])(
  'kreplay %s prints on stderr what is missing, and why',
  async (command) => {
    const { code, stderr } = await kreplay(command, '--url', served.url, '--output', 'ndjson');
    expect(code).toBe(0);
    expect(stderr).toMatch(
      /^kreplay: warning: 112 of 113 events are missing \(99\.12 %\) in 2 places from 2025-11-21T00:00:10\S+ to 2025-11-21T\S+: the agent did not drain/,
    );
    expect(stderr).toMatch(
      /\nkreplay: warning: 1 of 2 events is missing \(50 %\) from \S+ to \S+: the kernel had no memory/,
    );
  },
);

test('a stream states the number of losses ahead of its lines', async () => {
  const headers = { accept: 'application/x-ndjson' };
  expect((await served.get('/api/events', { headers })).headers['kreplay-lost']).toBe('113');
  expect((await served.get(`/api/events?from=${START + 30n * S}`, { headers })).headers['kreplay-lost']).toBe('0');
  expect((await served.get('/api/events', { headers })).headers['kreplay-complete']).toBe('false');
});
