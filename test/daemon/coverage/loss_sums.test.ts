/**
 * Tests what each answer says about losses unless each gap is asked for: sums by cause and node, of a bounded size, and
 * shares of which both numbers are true.
 */
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import type { RecordingWriter } from '../../../agent/recording/write/writer.ts';
import type { LossCause } from '../../../bpf/schema/losses.ts';
import { addTimeTexts } from '../../../daemon/base/time_text.ts';
import { sumOtherLosses } from '../../../daemon/coverage/loss_sums.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { exported } from '../export/exported.ts';
import { type Row, recorded, recordedOn, recordingPath, START, setInProgress, setMeta } from '../recorded.ts';
import { type Served, serve, served } from '../served.ts';

const S = 1_000_000_000n;

interface Loss {
  from: bigint;
  to: bigint;
  count: number;
  cause?: LossCause;
  service?: string;
}

/** Times are relative to `START`. */
const lose =
  (...losses: readonly Loss[]) =>
  (writer: RecordingWriter) => {
    for (const { from, to, count, cause = 'end_missed', service } of losses)
      writer.recordLoss({ cause, service, eventType: null, count, fromNs: START + from, toNs: START + to });
  };

const every = (count: number, stepNs: bigint): Row[] =>
  Array.from({ length: count }, (_, i) => ({ at: START + BigInt(i) * stepNs, transaction: `tx-${i % 3}` }));

/** A recording of an agent that recorded from `START` until `until` after it. */
function recordedUntil(until: bigint, rows: readonly Row[], ...losses: readonly Loss[]): string {
  const path = recordingPath(recorded(rows, lose(...losses)));
  setMeta(path, { created_ns: START, alive_ns: START + until });
  return path;
}

async function servedUntil(until: bigint, rows: readonly Row[], ...losses: readonly Loss[]): Promise<Served> {
  const daemon = await served(openRecordingStore(undefined, [recordedUntil(until, rows, ...losses)]));
  daemon.setNow(START + until);
  return daemon;
}

const coverageOf = async (daemon: Served, path: string) => (await daemon.get(path)).json.coverage;
/** The shares by cause, with their times as numbers. */
const ratesOf = async (daemon: Served, path = '/api/events?limit=1') =>
  (await coverageOf(daemon, path)).losses.map(
    ({ cause, rate }: { cause: string; rate: Record<string, unknown> | null }) => {
      if (rate === null) return [cause, null];
      const { from_time, to_time, ...numbers } = rate;
      const { from, to } = numbers as { from: number; to: number };
      expect([from_time, to_time].map((text) => Date.parse(String(text)))).toEqual(
        [from, to].map((ns) => Math.floor(ns / 1e6)),
      );
      return [cause, numbers];
    },
  );

const PATHS = [
  '/api/events',
  '/api/events?transaction_id=tx-1',
  '/api/stats',
  '/api/transactions',
  '/api/transactions/tx-1',
  '/api/transactions/tx-1/summary',
  '/api/transactions/tx-1/explain',
  '/api/heatmap',
  '/api/differences?min_duration_ms=1',
];
const BODIES = [{ transaction_id: 'tx-1' }, { where: {} }];

describe('sums', () => {
  const losses: readonly Loss[] = [
    ...Array.from({ length: 40 }, (_, i) => ({ from: BigInt(i) * S, to: BigInt(i) * S + 1000n, count: 2 })),
    { from: 5n * S, to: 6n * S, count: 7, cause: 'ring_full' },
  ];
  let daemon: Served;
  beforeAll(async () => {
    daemon = await serve(openRecordingStore(undefined, [recordedUntil(60n * S, every(300, S / 5n), ...losses)]));
    daemon.setNow(START + 60n * S);
  });
  afterAll(() => daemon.close());

  const full = (path: string) => `${path}${path.includes('?') ? '&' : '?'}coverage=full`;
  const post = (body: object) =>
    daemon.get('/api/replay/whatif', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  type Ask = () => ReturnType<Served['get']>;
  const answers: [name: string, summary: Ask, whole: Ask][] = [
    ...PATHS.map((path): [string, Ask, Ask] => [path, () => daemon.get(path), () => daemon.get(full(path))]),
    ...BODIES.map((body): [string, Ask, Ask] => [
      JSON.stringify(body),
      () => post(body),
      () => post({ ...body, coverage: 'full' }),
    ]),
  ];

  test.each(answers)('of %s are those of its gaps, which only a full coverage has', async (_, summary, whole) => {
    const { gaps, ...same } = (await whole()).json.coverage;
    expect((await summary()).json.coverage).toEqual(same);
    expect(same).toMatchObject({ complete: false, lost: 87 });
    for (const { cause, node, lost, gap_count, from, to } of same.losses) {
      const own = gaps.filter((gap: { cause: string; node: string }) => gap.cause === cause && gap.node === node);
      expect(own).toHaveLength(gap_count);
      expect(own.reduce((sum: number, gap: { lost: number }) => sum + gap.lost, 0)).toBe(lost);
      expect([from, to]).toEqual([own[0].from, own.at(-1).to]);
    }
    expect(same.losses.reduce((sum: number, { lost }: { lost: number }) => sum + lost, 0)).toBe(87);
    expect(same.losses.map(({ cause }: { cause: string }) => cause)).toEqual(['end_missed', 'ring_full']);
  });

  test('of columns are in the last line, and the detail may change between pages', async () => {
    const headers = { accept: 'application/vnd.kreplay.columns' };
    const lastOf = (text: string) => JSON.parse(text.trimEnd().split('\n').at(-1)!).coverage;
    expect(lastOf((await daemon.get('/api/events', { headers })).text)).not.toHaveProperty('gaps');
    expect(lastOf((await daemon.get('/api/events?coverage=full', { headers })).text).gaps).toHaveLength(41);
    const { next_cursor } = (await daemon.get('/api/events?limit=10')).json;
    const next = await daemon.get(`/api/events?limit=10&coverage=full&cursor=${next_cursor}`);
    expect([next.status, next.json.coverage.gaps.length]).toEqual([200, 41]);
  });

  test('are asked for by two words only', async () => {
    for (const word of ['', 'all', 'full&coverage=full', 'FULL'])
      expect((await daemon.get(`/api/stats?coverage=${word}`)).json).toMatchObject({ code: 'invalid_parameter' });
    expect((await post({ transaction_id: 'tx-1', coverage: 'all' })).json).toMatchObject({ code: 'invalid_body' });
  });

  test('stay few: beyond a limit those of one cause are one sum', () => {
    const gap = (i: number, cause: string) => ({ from: BigInt(i), to: BigInt(i + 1), lost: 1, cause, node: `n${i}` });
    const gaps = Array.from({ length: 500 }, (_, i) => gap(i, i % 2 === 0 ? 'ring_full' : 'no_memory'));
    expect(sumOtherLosses(gaps)).toEqual([
      { cause: 'ring_full', lost: 250, gap_count: 250, ...addTimeTexts({ from: 0n, to: 499n }), rate: null },
      { cause: 'no_memory', lost: 250, gap_count: 250, ...addTimeTexts({ from: 1n, to: 500n }), rate: null },
    ]);
    expect(sumOtherLosses(gaps.slice(0, 60))).toHaveLength(60);
  });

  test('of many nodes name those that are furthest behind, and say how many there are', async () => {
    const paths = Array.from({ length: 20 }, (_, i) => {
      const path = recordingPath(recordedOn(`n${String(i).padStart(2, '0')}`, []));
      setMeta(path, { created_ns: START, alive_ns: START + BigInt(20 - i) });
      return path;
    });
    const many = await served(openRecordingStore(undefined, paths));
    const { nodes, node_count } = await coverageOf(many, '/api/events');
    expect([nodes.length, nodes[0].node, node_count]).toEqual([16, 'n04', 20]);
    expect((await coverageOf(many, '/api/events?coverage=full')).nodes).toHaveLength(20);
  });

  test('leave an answer small that has a thousand gaps', async () => {
    const some = Array.from({ length: 900 }, (_, i) => ({ from: BigInt(i) * S, to: BigInt(i) * S + 9n, count: 1 }));
    const lossy = await servedUntil(1000n * S, every(10, S), ...some);
    expect(JSON.stringify(await coverageOf(lossy, '/api/events')).length).toBeLessThan(900);
  });
});

describe('the share of lost events', () => {
  test('is that of all events of the node in the window, whatever the filter selects', async () => {
    const daemon = await servedUntil(40n * S, every(39_999, 1_000_000n), { from: 10n * S, to: 11n * S, count: 1 });
    const rate = { from: Number(START), to: Number(START + 40n * S), lost: 1, recorded: 39_999, share: 1 / 40_000 };
    for (const filter of ['', '&service=shop', '&service=none', '&pid=1', '&event_type=block_io'])
      expect(await ratesOf(daemon, `/api/events?limit=1${filter}`)).toEqual([['end_missed', rate]]);
  });

  test('has exact numbers, wherever the window cuts segments, gaps and long calls', async () => {
    const rows = Array.from({ length: 20_000 }, (_, i): Row => {
      const at = START + BigInt((i * 7919) % 20_000) * 1_000_000n;
      return { at, duration: i % 500 === 0 ? 5n * S : 1000n };
    });
    const daemon = await servedUntil(
      20n * S,
      rows,
      { from: 3n * S, to: 4n * S, count: 5 },
      { from: 9n * S + 1n, to: 9n * S + 1n, count: 3 },
      { from: 15n * S, to: 19n * S, count: 11 },
    );
    const ns = fc.bigInt({ min: 0n, max: 20n * S });
    await fc.assert(
      fc.asyncProperty(ns, ns, async (a, b) => {
        const [from, to] = a < b ? [START + a, START + b] : [START + b, START + a];
        for (const { rate, lost } of (await coverageOf(daemon, `/api/events?limit=1&from=${from}&to=${to}`)).losses) {
          expect(rate.lost).toBe(lost);
          const { text } = await daemon.get(`/api/events?limit=1&from=${from}&to=${to}`);
          const [, exactFrom, exactTo] = /"rate":\{"from":(\d+),"from_time":"[^"]+","to":(\d+)/.exec(text)!;
          const { total } = (await daemon.get(`/api/stats?from=${exactFrom}&to=${exactTo}`)).json;
          expect(rate.recorded).toBe(total.count);
        }
      }),
      { numRuns: 60 },
    );
  });

  test('is of the time that is left if retention has removed events', async () => {
    const daemon = await servedUntil(
      20n * S,
      every(100, S / 10n).filter(({ at }) => at >= START + 5n * S),
      { from: 0n, to: 5n * S - 1n, count: 1000, cause: 'retention' },
      { from: 4n * S, to: 4n * S + 1n, count: 2 },
      { from: 8n * S, to: 9n * S, count: 3 },
    );
    const kept = { from: Number(START + 5n * S), to: Number(START + 20n * S), lost: 3, recorded: 50, share: 3 / 53 };
    expect(await ratesOf(daemon)).toEqual([
      ['retention', null],
      ['end_missed', kept],
    ]);
  });

  test.each<[why: string, cause: LossCause, count: number]>([
    ['what is lost is not an event', 'definition_lost', 5],
    ['what is lost is not an event', 'marker_flood', 5],
    ['nothing counted the events', 'agent_killed', 0],
    ['nothing counted the events', 'end_missed', 0],
  ])('is not known if %s (%s)', async (_, cause, count) => {
    const path = recordedUntil(10n * S, every(10, S), { from: S, to: 2n * S, count: 1, cause });
    const database = new Database(path);
    database.prepare('UPDATE loss SET count = ?').run(count);
    database.close();
    const daemon = await served(openRecordingStore(undefined, [path]));
    expect(await ratesOf(daemon)).toEqual([[cause, null]]);
  });

  test('is not known of a bundle, of copies, and of damaged recordings', async () => {
    const loss = { from: 2n * S, to: 3n * S, count: 4 };
    const data = recorded(every(30, S), lose(loss));
    const { path: bundle } = await exported(data, 'bundle', {
      selection: { filter: { transactionId: 'tx-1' }, window: {} },
    });
    expect(await ratesOf(await served(openRecordingStore(undefined, [bundle])))).toEqual([['end_missed', null]]);

    mkdirSync(join(data, 'imported'));
    copyFileSync(recordingPath(data), join(data, 'imported', 'copy.kreplay'));
    expect(await ratesOf(await served(data))).toEqual([['end_missed', null]]);

    const damaged = recordingPath(recorded(every(9000, 1_000_000n), lose(loss)));
    setMeta(damaged, { created_ns: START, alive_ns: START + 9n * S });
    const database = new Database(damaged);
    database.exec('UPDATE segment SET event_count = event_count + 1 WHERE sealed = 1');
    database.close();
    const daemon = await served(openRecordingStore(undefined, [damaged]));
    await daemon.get('/api/stats');
    for (const [cause, rate] of await ratesOf(daemon)) expect([cause, rate]).toEqual([cause, null]);
  });

  test('is not that of a longer time because of a call that is still in progress', async () => {
    const path = recordingPath(
      recorded(every(1000, S), (writer) => {
        lose({ from: 2n * S, to: 3n * S, count: 10, cause: 'ring_full' })(writer);
        setInProgress(writer, [{ at: START + 4n * S, type: 'sys_sync' }]);
      }),
    );
    setMeta(path, { created_ns: START, alive_ns: START + 1000n * S });
    const daemon = await served(openRecordingStore(undefined, [path]));
    daemon.setNow(START + 1000n * S);
    const window = `from=${START}&to=${START + 5n * S}`;
    const rate = { from: Number(START), to: Number(START + 5n * S), lost: 10, recorded: 5, share: 10 / 15 };
    expect(await ratesOf(daemon, `/api/events?limit=1&${window}`)).toEqual([
      ['ring_full', rate],
      ['in_progress', null],
    ]);
  });

  test('is not known where too many segments lie in the window', async () => {
    const path = recordedUntil(20_000n * S, every(10, S), { from: 2n * S, to: 3n * S, count: 4 });
    const database = new Database(path);
    const columns = `sealed, min_timestamp_ns, max_timestamp_ns, max_duration_ns, type_mask, end_number, name_from,
      file_from, context_from, name_end, file_end, context_end, services, facts, data`;
    database.exec('UPDATE segment SET sealed = 1');
    database.exec(`
WITH RECURSIVE other (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM other WHERE i < 9000)
INSERT INTO segment (first_number, event_count, ${columns})
SELECT first_number + 4096 * i, event_count, ${columns.replaceAll(/(m\w+_timestamp_ns)/g, `$1 + i * ${S}`)}
FROM segment, other WHERE first_number = 0`);
    database.close();
    const daemon = await served(openRecordingStore(undefined, [path]));
    const until = (to: bigint) => `/api/events?limit=1&from=${START}&to=${START + to}`;
    expect(await ratesOf(daemon, until(9000n * S))).toEqual([['end_missed', null]]);
    const [[, rate]] = await ratesOf(daemon, until(8000n * S));
    expect(rate).toMatchObject({ lost: 4 });
  });

  test('is known whatever the entries of other segments are', async () => {
    const path = recordedUntil(9n * S, every(9000, 1_000_000n), { from: 4_200_000_000n, to: 4_700_000_000n, count: 4 });
    const database = new Database(path);
    database.exec('UPDATE segment SET event_count = 9007199254740993, end_number = 4096 WHERE first_number = 0');
    database.close();
    const daemon = await served(openRecordingStore(undefined, [path]));
    const window = `from=${START + 4_300_000_000n}&to=${START + 4_600_000_000n}`;
    const [[, rate]] = await ratesOf(daemon, `/api/events?limit=1&${window}`);
    expect(rate).toMatchObject({ lost: 4, recorded: 501 });
  });

  test('is that of each node, and another node does not dilute it', async () => {
    const paths = [
      recordedOn('quiet', every(9, S), lose({ from: S, to: 2n * S, count: 1 })),
      recordedOn('busy', every(5000, 1_000_000n)),
    ].map((folder) => recordingPath(folder));
    for (const path of paths) setMeta(path, { created_ns: START, alive_ns: START + 10n * S });
    const daemon = await served(openRecordingStore(undefined, paths));
    const [{ node, rate }] = (await coverageOf(daemon, '/api/events?limit=1')).losses;
    expect([node, rate.recorded, rate.share]).toEqual(['quiet', 9, 0.1]);
  });
});
