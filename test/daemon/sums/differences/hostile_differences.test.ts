/** Tests comparisons of what is rare or malicious: long times, odd names, many files, requests of many, large ones. */
import fc from 'fast-check';
import { hashText53 } from '../../../../agent/recording/format/text_hash.ts';
import { comparePopulation } from '../../../../daemon/contract/differences_query.ts';
import { createEmbeddedStore } from '../../../../daemon/store/embedded/embedded_store.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { compareTransactions, TRANSACTION_COLUMNS } from '../../../../daemon/sums/differences/compare_transactions.ts';
import { gatherPopulation } from '../../../../daemon/sums/differences/population.ts';
import { createProfiles, PROFILE_COLUMNS } from '../../../../daemon/sums/differences/profiles.ts';
import { times } from '../../../repeats.ts';
import { type Row, recorded, recordedOn, recordingPath, START } from '../../recorded.ts';
import { served } from '../../served.ts';
import { ask } from './compared.ts';

const LARGEST = 2n ** 63n - 1n;
const fill = <Value>(count: number, make: (i: number) => Value): Value[] =>
  Array.from({ length: count }, (_, i) => make(i));

test('sums of durations beyond 2^53 are exact, for events and for transactions', async () => {
  const rows: Row[] = [
    ...fill(3, (i): Row => ({ at: BigInt(i), duration: LARGEST - 100n, transaction: `a${i}` })),
    { at: 2n ** 53n + 1n, duration: 2n ** 53n + 1n, transaction: 'b', type: 'sys_sync' },
    { at: 5n, duration: 2n ** 53n + 3n, queue: 2n ** 53n + 1n, transaction: 'c', type: 'block_io' },
    { at: 7n, duration: 10n, transaction: 'd' },
  ];
  const daemon = await served(recorded(rows));
  const long = 3n * (LARGEST - 100n);
  for (const kind of ['events', 'transactions']) {
    const { text } = await daemon.get(`/api/differences?of=${kind}&min_duration_ms=1`);
    // Whether a thread waited for a request that it queued outside calls is not known.
    const [queue, service, request] = kind === 'events' ? [2n ** 53n + 1n, 2, 0] : [0, 0, 2n ** 53n + 3n];
    expect(text).toContain(
      `"selected":{"count":5,"duration_ns":${long + 2n ** 54n + 4n},"breakdown":{"queue_ns":${queue},"service_ns":${service},"sync_ns":${2n ** 53n + 1n},"write_ns":${long},"request_ns":${request},"untraced_ns":0},"median":`,
    );
    expect(text).toContain('"others":{"count":1,"duration_ns":10,');
  }
});

const SCALE = 2n ** 45n;
const drawn = fc.record({
  transaction: fc.integer({ min: 0, max: 2 }),
  node: fc.integer({ min: 0, max: 1 }),
  at: fc.integer({ min: 0, max: 200 }),
  duration: fc.integer({ min: 0, max: 40 }),
  queue: fc.integer({ min: 0, max: 50 }),
  kind: fc.constantFrom('write', 'sync', 'own request', 'request'),
});

function scaledRow(
  {
    transaction,
    at,
    duration,
    queue,
    kind,
  }: Omit<typeof drawn extends fc.Arbitrary<infer T> ? T : never, 'kind' | 'node'> & { kind: string },
  scale: bigint,
): Row {
  const owner = { transaction: `tx-${transaction}` };
  const times = { at: BigInt(at) * scale, duration: BigInt(duration) * scale };
  if (kind === 'write') return { ...times, ...owner };
  if (kind === 'sync') return { ...times, ...owner, type: 'sys_sync' };
  const request = { ...times, type: 'block_io', queue: BigInt(queue) * scale } as const;
  return kind === 'request' ? { ...request, origins: [{ ...owner, bytes: 1n }] } : { ...request, ...owner };
}

test('the parts of transactions with many events are the same, days longer', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(drawn, { minLength: 200, maxLength: 300 }), async (events) => {
      const answers = [];
      // A transaction's data is in no request before its first write.
      const first = [0, 1, 2].map((transaction) => ({
        transaction,
        node: 0,
        at: 0,
        duration: 1,
        queue: 0,
        kind: 'write',
      }));
      for (const scale of [1n, SCALE]) {
        const paths = [0, 1].map((node) => {
          const own = [...first, ...events].filter((one) => one.node === node).map((one) => scaledRow(one, scale));
          return recordingPath(recordedOn(`n${node}`, own));
        });
        const daemon = await served(openRecordingStore(undefined, paths));
        answers.push(await ask(daemon, 'min_duration_ms=0'));
      }
      const [short, long] = answers.map(({ selected }) => selected);
      const scaled = (value: number) => BigInt(value) * SCALE;
      expect(BigInt(long!.duration_ns)).toBe(scaled(short!.duration_ns));
      for (const [part, ns] of Object.entries(short!.breakdown))
        expect([part, BigInt(long!.breakdown[part]!)]).toEqual([part, scaled(ns)]);
    }),
    { numRuns: times(3), endOnFailure: true },
  );
}, 60_000);

test('a file that is named like a pattern is not its folder', async () => {
  const daemon = await served(
    recorded(
      fill(80, (i): Row => {
        const common = { at: START + BigInt(i), transaction: `t${i}`, comm: '__proto__', service: 'constructor' };
        return { ...common, duration: i < 40 ? 5000n : 10n, file: i < 40 ? '/a/*' : `/b/${i % 4}` };
      }),
    ),
  );
  for (const kind of ['events', 'transactions']) {
    const { differences } = await ask(daemon, `of=${kind}&min_duration_ms=0.005`);
    expect(differences.slice(0, 2)).toEqual([
      {
        values: [
          { field: 'file', value: '/a/\\*', selected: 40, others: 0 },
          { field: 'file', value: '/a/', selected: 40, others: 0 },
        ],
      },
      { values: [{ field: 'file', value: '/b/', selected: 0, others: 40 }] },
    ]);
  }
});

test('folders are counted whole, also after files are left out', () => {
  const store = openRecordingStore(recorded(fill(60, (i) => ({ at: START + BigInt(i), file: `/d/${i}` }))));
  const profiles = createProfiles(40);
  let inFolder = 0;
  for (let scans = 0; scans < 3; scans++) {
    for (const scanned of store.scan({ filter: {}, order: 'asc' })) {
      const numbers = profiles.assignNumbers(scanned);
      for (let row = 0; row < scanned.block.rowCount; row++) {
        const { values } = profiles.profiles[numbers[row]!]!;
        if (values.some((value) => profiles.values[value]!.value === '/d/')) inFolder++;
      }
    }
  }
  expect([[...profiles.leftOut], inFolder]).toEqual([['file'], 180]);
  expect(profiles.isComplete({ field: 'file', value: '/d/' })).toBe(true);
  expect(profiles.isComplete({ field: 'file', value: '/d/1' })).toBe(false);
  store.close();
});

/** Each request carries data of four transactions while they sync. */
function recordCarried(): string {
  return recorded([
    ...fill(4, (i): Row => ({ at: START, duration: 1000n, type: 'sys_sync', transaction: `t${i}` })),
    ...fill(
      100,
      (i): Row => ({
        ...{ at: START + BigInt(i), duration: 10n, type: 'block_io', service: 'kernel' },
        origins: fill(4, (slot) => ({ transaction: `t${slot}`, bytes: 1n })),
      }),
    ),
  ]);
}

async function resultOf<Result>(steps: AsyncGenerator<void, Result>): Promise<Result> {
  for (;;) {
    const { done, value } = await steps.next();
    if (done) return value;
  }
}

test('a request that is kept for each of its transactions counts as many times for the limit', async () => {
  const store = createEmbeddedStore(openRecordingStore(recordCarried()));
  const compare = (eventsMax: number) =>
    resultOf(store.compare({ of: 'transactions', box: {}, filter: {}, eventsMax }));
  expect(await compare(403)).toBeUndefined();
  expect(await compare(404)).toMatchObject({
    comparison: { events: 104, selected: { count: 4, parts: { queue: 0n, service: 436n, sync: 3564n } } },
  });
  await store.close();
});

test('a box outside a window that is too large leaves an empty window', async () => {
  const store = createEmbeddedStore(
    openRecordingStore(recorded(fill(100, (i) => ({ at: START + BigInt(i), transaction: `t${i}` })))),
  );
  const [box, filter] = [{ fromNs: START + 5000n }, { fromNs: START, toNs: START + 90n }];
  const found = await resultOf(comparePopulation(store, { of: 'events', box, filter }, 50));
  expect(found).toMatchObject({ isNarrowed: true, window: { fromNs: START + 5000n, toNs: START + 5000n } });
  expect(found.comparison).toMatchObject({ selected: { count: 0 }, others: { count: 0 }, tooFew: true });
  await store.close();
});

test('the last pass lets other work run', () => {
  const count = 40_000;
  const store = openRecordingStore(
    recorded(fill(count, (i) => ({ at: START + BigInt(i), transaction: `t${i % 50}` }))),
  );
  const { add, finish } = gatherPopulation({});
  add({
    length: 50,
    hashes: Float64Array.from(fill(50, (i) => hashText53(`t${i}`))),
    startsNs: BigUint64Array.from(fill(50, (i) => START + BigInt(i))),
    durationsNs: new BigUint64Array(50).fill(BigInt(count)),
    hasFailed: () => false,
  });
  const comparer = compareTransactions(finish(), {});
  for (const scanned of store.scan({ filter: {}, order: 'asc', columns: [...TRANSACTION_COLUMNS, ...PROFILE_COLUMNS] }))
    comparer.add(scanned);
  expect(comparer.kept).toBe(count);
  const steps = comparer.finish();
  expect(steps.next().done).toBe(false);
  expect(steps.return(undefined as never).done).toBe(true);
  store.close();
});

test('a loss after the window is reported if transactions of the window are there', async () => {
  const rows = fill(80, (i): Row => ({ at: START - 10_000n + BigInt(i), duration: 5000n, transaction: `t${i}` }));
  const folder = recorded(rows, (writer) => {
    writer.recordLoss({
      ...{ cause: 'ring_full', eventType: null, count: 3 },
      fromNs: START - 7000n,
      toNs: START - 6000n,
    });
  });
  const daemon = await served(folder);
  const window = `window_from=${START - 10_000n}&window_to=${START - 9000n}`;
  const lostIn = async (kind: string) => (await daemon.get(`/api/differences?of=${kind}&${window}`)).json.coverage.lost;
  expect([await lostIn('transactions'), await lostIn('events')]).toEqual([3, 0]);
});
