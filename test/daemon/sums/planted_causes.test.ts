/** Tests that planted causes are found, and that noise is not. */
import { compared } from '../../../daemon/query/differences_query.ts';
import { embeddedStore } from '../../../daemon/store/embedded/embedded_store.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { type Row, recordedOn, recordingPath, START } from '../recorded.ts';
import { type Served, serve, served as servedHere } from '../served.ts';
import { type Answer, ask, type Value } from './compared.ts';

const MS = 1_000_000n;
const NODES = ['n1', 'n2'];

/** A generator of numbers below 1 that is the same in each run (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** What one transaction is made of. */
interface Made {
  node: string;
  service: string;
  comm: string;
  device: string;
  file: string;
  call: 'fsync' | 'fdatasync';
  failed: boolean;
  slow: boolean;
  /** Whether a thread of the kernel writes its data while it syncs. */
  byKernel: boolean;
}

function rowsOf(i: number, made: Made, random: () => number): Row[] {
  const at = START - 3_600_000n * MS + BigInt(i) * 20n * MS;
  const owner = { service: made.service, transaction: `order-${i}`, comm: made.comm };
  const syncNs = BigInt(Math.round((made.slow ? 100 : 5) * 1e6 * (1 + random())));
  const asked = made.byKernel
    ? { service: 'kernel', comm: 'jbd2', origins: [{ ...owner, bytes: 64n }] }
    : { ...owner, origins: [] };
  return [
    { ...owner, at, duration: 20_000n, file: made.file, ...(made.failed && { result: -28n }) },
    { ...owner, type: 'sys_sync', at: at + 30_000n, duration: syncNs, file: made.file, syscall: made.call, result: 0n },
    {
      ...{ ...asked, type: 'block_io', at: at + 40_000n, duration: syncNs - 20_000n, device: made.device },
      ...{ queue: syncNs / 2n, result: 0n },
    },
    // Write-back, seconds later and by another device, is no cause.
    {
      ...{ ...owner, type: 'block_io', at: at + 9000n * MS, duration: 1000n, device: 'sdz', source: 'origin' },
      result: 0n,
    },
  ];
}

function recordMade(count: number, seed: number, change: (made: Made, random: () => number) => Made): string[] {
  const random = randomOf(seed);
  const pick = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)]!;
  const byNode = new Map<string, Row[]>(NODES.map((node) => [node, []]));
  for (let i = 0; i < count; i++) {
    const plain: Made = {
      ...{ node: pick(NODES), service: pick(['shop', 'cart', 'db']), comm: pick(['node', 'java']) },
      ...{ device: pick(['sda', 'sdb', 'sdc']), file: pick(['/a/1', '/a/2', '/b/1', '/b/2', '/c/1', '/c/2']) },
      ...{
        call: pick(['fsync', 'fdatasync'] as const),
        failed: random() < 0.02,
        slow: random() < 0.1,
        byKernel: false,
      },
    };
    const made = change(plain, random);
    byNode.get(made.node)!.push(...rowsOf(i, made, random));
  }
  return NODES.map((node) => recordingPath(recordedOn(node, byNode.get(node)!)));
}

const namesIn = ({ differences }: Answer) =>
  differences.map(({ values }) => values.map(({ field, value }) => `${field} ${value}`));

type Plant = (made: Made, random: () => number) => Made;
const slowIf =
  (isCause: (made: Made) => boolean): Plant =>
  (made, random) => ({ ...made, slow: random() < (isCause(made) ? 0.5 : 0.02) });

const PLANTED: [name: string, plant: Plant, box: string, wanted: string[]][] = [
  ['a device', slowIf(({ device }) => device === 'sdb'), 'min_duration_ms=90', ['device sdb']],
  ['a file', slowIf(({ file }) => file === '/b/2'), 'min_duration_ms=90', ['file /b/2']],
  ['a folder', slowIf(({ file }) => file.startsWith('/c/')), 'min_duration_ms=90', ['file /c/*']],
  [
    'a folder with a file for each',
    (made, random) => {
      const slow = random() < 0.1;
      return { ...made, slow, file: `/${slow ? 'x' : 'y'}/${random()}` };
    },
    'min_duration_ms=90',
    ['file /x/*'],
  ],
  ['a node', slowIf(({ node }) => node === 'n2'), 'min_duration_ms=90', ['node n2']],
  ['a service', slowIf(({ service }) => service === 'db'), 'min_duration_ms=90', ['service db']],
  ['a command', slowIf(({ comm }) => comm === 'java'), 'min_duration_ms=90', ['comm java']],
  ['a system call', slowIf(({ call }) => call === 'fsync'), 'min_duration_ms=90', ['syscall fsync']],
  ['an error', (made) => ({ ...made, failed: made.device === 'sda' }), 'failed=true', ['error ENOSPC', 'device sda']],
  ['an error that delays', slowIf(({ failed }) => failed), 'min_duration_ms=90', ['error ENOSPC']],
  [
    'a device that others write to while a sync waits',
    (made, random) => ({ ...slowIf(({ device }) => device === 'sdc')(made, random), byKernel: true }),
    'min_duration_ms=90',
    ['device sdc'],
  ],
  [
    'two at once',
    slowIf(({ device, file }) => device === 'sda' || file === '/b/1'),
    'min_duration_ms=90',
    ['device sda', 'file /b/1'],
  ],
  [
    'a device of one node',
    (made, random) => {
      const device = made.node === 'n2' ? 'nvme1' : made.device;
      return slowIf((one) => one.device === 'nvme1')({ ...made, device }, random);
    },
    'min_duration_ms=90',
    ['device nvme1', 'node n2'],
  ],
];

describe('planted causes', () => {
  test.each(PLANTED)('%s is found, and nothing else', async (_, plant, box, wanted) => {
    const daemon = await servedHere(openRecordingStore(undefined, recordMade(1500, 7, plant)));
    const answer = await ask(daemon, box);
    const shares = ({ selected, others }: Value) => selected / answer.selected.count - others / answer.others.count;
    const more = answer.differences.filter(({ values }) => shares(values[0]!) > 0).map(({ values }) => values);
    const first = more.slice(0, wanted.length).flat();
    expect(first.map(({ field, value }) => `${field} ${value}`)).toEqual(expect.arrayContaining(wanted));
    const causes = new Set([...wanted.map((name) => name.split(' ')[0]!), 'file']);
    const fields = more.flat().map(({ field }) => field);
    expect(fields.filter((field) => !causes.has(field))).toEqual([]);
    for (const { field } of more.flat()) expect(answer.equal).not.toContain(field);
    expect(namesIn(answer).flat()).not.toContain('device sdz');
  });
});

test('values of the same transactions are in one row', async () => {
  const plant: Plant = (made, random) => {
    const device = made.node === 'n2' ? 'nvme1' : made.device;
    return slowIf((one) => one.device === 'nvme1')({ ...made, device }, random);
  };
  const daemon = await servedHere(openRecordingStore(undefined, recordMade(1500, 3, plant)));
  expect(namesIn(await ask(daemon, 'min_duration_ms=90'))[0]).toEqual(['node n2', 'device nvme1']);
});

describe('noise', () => {
  let daemon: Served;
  beforeAll(async () => {
    daemon = await serve(
      openRecordingStore(
        undefined,
        recordMade(3000, 11, (made) => made),
      ),
    );
  });
  afterAll(() => daemon.close());

  test('at most 5 % of 200 selections show a row', async () => {
    const random = randomOf(5);
    const shown: string[][][] = [];
    for (let i = 0; i < 200; i++) {
      const from = START - 3_600_000n * MS + BigInt(Math.floor(random() * 2500)) * 20n * MS;
      const answer = await ask(daemon, `from=${from}&to=${from + BigInt(60 + Math.floor(random() * 400)) * 20n * MS}`);
      expect(answer.too_few).toBe(false);
      if (answer.differences.length > 0) shown.push(namesIn(answer));
    }
    expect(shown.length).toBeLessThanOrEqual(10);
  }, 120_000);

  test('all fields are then equal', async () => {
    const { equal, differences } = await ask(daemon, `from=${START - 3_590_000n * MS}&to=${START - 3_580_000n * MS}`);
    expect(differences).toEqual([]);
    expect(equal).toEqual([
      ...['service', 'node', 'event_type', 'operation', 'syscall', 'device', 'comm', 'file', 'error'],
    ]);
  });

  test('too few are not compared', async () => {
    const start = START - 3_600_000n * MS;
    for (const [count, tooFew] of [
      [29, true],
      [30, false],
    ] as const) {
      const answer = await ask(daemon, `from=${start}&to=${start + BigInt(count) * 20n * MS}`);
      expect([answer.selected.count, answer.too_few]).toEqual([count, tooFew]);
    }
    expect(await ask(daemon, 'min_duration_ms=0')).toMatchObject({ too_few: true, others: { count: 0 } });
  });

  test('the window that has too many events becomes the time of the box', async () => {
    const store = openRecordingStore(
      undefined,
      recordMade(600, 2, (made) => made),
    );
    const whole = embeddedStore(store);
    const start = START - 3_600_000n * MS;
    const box = { fromNs: start, toNs: start + 2000n * MS, minDurationNs: 90n * MS };
    const run = async (eventsMax: number, filter = {}, own = box) => {
      const steps = compared(whole, { of: 'transactions', filter, box: own }, eventsMax);
      for (;;) {
        const { done, value } = await steps.next();
        if (done) return value;
      }
    };
    expect(await run(5000)).toMatchObject({ isNarrowed: false, window: {} });
    const narrowed = await run(600);
    expect(narrowed).toMatchObject({ isNarrowed: true, window: { fromNs: start, toNs: start + 2000n * MS } });
    expect(narrowed.comparison.selected.count + narrowed.comparison.others.count).toBe(100);
    await expect(run(10)).rejects.toMatchObject({ code: 'too_many_events' });
    await expect(run(600, {}, { minDurationNs: 0n } as typeof box)).rejects.toMatchObject({ code: 'too_many_events' });
    await whole.close();
  });
});
