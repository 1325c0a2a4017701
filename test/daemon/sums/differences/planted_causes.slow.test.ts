/** Tests that planted causes are found, and that noise is not. */
import { comparePopulation } from '../../../../daemon/contract/differences_query.ts';
import { createEmbeddedStore } from '../../../../daemon/store/embedded/embedded_store.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { times } from '../../../repeats.ts';
import { START } from '../../recorded.ts';
import { type Served, serve, served as servedHere } from '../../served.ts';
import { type Answer, ask, type Value } from './compared.ts';
import { PLANTED, type Plant, randomOf, recordMade, slowIf } from './planted.ts';

const MS = 1_000_000n;

const namesIn = ({ differences }: Answer) =>
  differences.map(({ values }) => values.map(({ field, value }) => `${field} ${value}`));

describe('planted causes', () => {
  test.each(PLANTED)('$name is found, and nothing else', async ({ plant, box, wanted }) => {
    const daemon = await servedHere(openRecordingStore(undefined, recordMade(1000, 7, plant)));
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

  const selections = times(40);
  test(`at most 5 % of ${selections} selections show a row`, async () => {
    const random = randomOf(5);
    const shown: string[][][] = [];
    for (let i = 0; i < selections; i++) {
      const from = START - 3_600_000n * MS + BigInt(Math.floor(random() * 2500)) * 20n * MS;
      const answer = await ask(daemon, `from=${from}&to=${from + BigInt(60 + Math.floor(random() * 400)) * 20n * MS}`);
      expect(answer.too_few).toBe(false);
      if (answer.differences.length > 0) shown.push(namesIn(answer));
    }
    expect(shown.length).toBeLessThanOrEqual(0.05 * selections);
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
    const whole = createEmbeddedStore(store);
    const start = START - 3_600_000n * MS;
    const box = { fromNs: start, toNs: start + 2000n * MS, minDurationNs: 90n * MS };
    const run = async (eventsMax: number, filter = {}, own = box) => {
      const steps = comparePopulation(whole, { of: 'transactions', filter, box: own }, eventsMax);
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
