/** Tests which answers a loss makes incomplete whose service is known, against a plain look at every loss. */
import fc from 'fast-check';
import { encodeReason, parseReason } from '../../../agent/recording/format/losses.ts';
import { times } from '../../repeats.ts';
import { appendRows, newFolder, newWriter, START } from '../recorded.ts';
import { serve } from '../served.ts';

const SERVICES = ['shop', 'bank', 'with a blank', 'ünï', 'x'.repeat(80), 'é'.repeat(40)];
const SECOND = 1_000_000_000n;

interface Lost {
  service: string | undefined;
  at: number;
  count: number;
}

const losses = fc.array(
  fc.record({
    service: fc.option(fc.constantFrom(...SERVICES), { nil: undefined }),
    at: fc.integer({ min: 0, max: 9 }),
    count: fc.integer({ min: 1, max: 1000 }),
  }),
  { maxLength: 6 },
);
const some = fc.option(fc.uniqueArray(fc.constantFrom(...SERVICES), { minLength: 1 }), { nil: undefined });

/** A name that has no room in the recording's word is not stored, so the loss may be of any service. */
const storedService = ({ service }: Lost) => (service && Buffer.byteLength(service) < 50 ? service : undefined);

test('a loss of one service touches the answers that may have events of it, and the others say it beside', async () => {
  await fc.assert(
    fc.asyncProperty(losses, some, some, fc.option(fc.constantFrom(...SERVICES.keys()), { nil: undefined }), check),
    { numRuns: times(25) },
  );
}, 240_000);

async function check(lost: Lost[], services?: string[], excluded?: string[], transaction?: number): Promise<void> {
  const folder = newFolder();
  const writer = newWriter(folder);
  appendRows(
    writer,
    SERVICES.map((service, i) => ({
      at: START + BigInt(i) * SECOND,
      service,
      transaction: `tx-${i}`,
      duration: SECOND,
    })),
  );
  for (const { service, at, count } of lost) {
    const fromNs = START + BigInt(at) * SECOND;
    writer.recordLoss({ cause: 'marker_flood', service, eventType: null, count, fromNs, toNs: fromNs + 1n });
  }
  writer.close();
  const served = await serve(folder);
  const query = new URLSearchParams([
    ...(services ?? []).map((service) => ['service', service]),
    ...(excluded ?? []).map((service) => ['exclude_service', service]),
    ...(transaction === undefined ? [] : [['transaction_id', `tx-${transaction}`]]),
    ['coverage', 'full'],
  ]);
  const { coverage } = (await served.get(`/api/events?${query}`)).json;
  await served.close();

  const asked = services ?? (transaction === undefined ? SERVICES : [SERVICES[transaction]!]);
  const wanted = asked.filter((service) => !excluded?.includes(service));
  const touching = lost.filter((loss) => {
    const service = storedService(loss);
    return service === undefined || wanted.includes(service);
  });
  const sum = (of: { count: number }[]) => of.reduce((all, { count }) => all + count, 0);
  const told = (gaps: { lost: number }[] = []) => gaps.reduce((all, gap) => all + gap.lost, 0);
  if (transaction === undefined) {
    expect(coverage.lost).toBe(sum(touching));
    expect(told(coverage.others)).toBe(sum(lost) - sum(touching));
    expect(coverage.complete).toBe(touching.length === 0);
  } else {
    // Losses far from the time of a transaction do not count.
    expect(coverage.complete).toBe(coverage.gaps.length === 0);
    expect(coverage.lost).toBeLessThanOrEqual(sum(touching));
    const near = touching.filter(({ at }) => Math.abs(at - transaction) <= 1);
    expect(coverage.lost).toBeGreaterThanOrEqual(sum(near.filter(({ at }) => at === transaction)));
  }
  for (const gap of [...coverage.gaps, ...(coverage.others ?? [])])
    if (gap.service !== undefined) expect(SERVICES).toContain(gap.service);
}

test('a reason is read as it was stored, and a reader of causes finds none that it knows', () => {
  for (const service of [undefined, 'shop', 'with a blank', '']) {
    const reason = service === undefined ? { cause: 'marker_flood' } : { cause: 'marker_flood', service };
    expect(parseReason(encodeReason(reason as never))).toEqual(reason);
  }
  expect(encodeReason({ cause: 'marker_flood', service: 'x'.repeat(80) })).toBe('marker_flood');
  expect(parseReason('not known here')).toEqual({ cause: 'unknown' });
});
