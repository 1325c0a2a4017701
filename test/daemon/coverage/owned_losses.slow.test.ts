/** Tests which answers a loss makes incomplete whose owner is known, against a plain look at every loss. */
import fc from 'fast-check';
import {
  canBePart,
  encodeReason,
  encodeScope,
  encodeSums,
  parseReason,
  parseScope,
  parseSums,
} from '../../../agent/recording/format/losses.ts';
import { times } from '../../repeats.ts';
import { kreplay } from '../command_line.ts';
import { appendRows, newFolder, newWriter, START } from '../recorded.ts';
import { serve } from '../served.ts';

const SERVICES = ['shop', 'bank', 'with a blank', 'ünï', 'x'.repeat(80), 'é'.repeat(40)];
const SECOND = 1_000_000_000n;

interface Lost {
  service: string | undefined;
  /** Number of the transaction, null: none, undefined: not known. */
  of: number | null | undefined;
  at: number;
  count: number;
}

const losses = fc.array(
  fc.record({
    service: fc.option(fc.constantFrom(...SERVICES), { nil: undefined }),
    of: fc.oneof(fc.constantFrom(null, undefined), fc.nat(SERVICES.length)),
    at: fc.integer({ min: 0, max: 9 }),
    count: fc.integer({ min: 1, max: 1000 }),
  }),
  { maxLength: 6 },
);
const some = fc.option(fc.uniqueArray(fc.constantFrom(...SERVICES), { minLength: 1 }), { nil: undefined });

/** A name that has no room in the recording's word is not stored, so the loss may be of any service. */
const storedService = ({ service }: Lost) => (service && Buffer.byteLength(service) < 50 ? service : undefined);

test('a loss of one service or transaction touches the answers that may have events of it, and the others say it beside', async () => {
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
  for (const { service, of, at, count } of lost) {
    const fromNs = START + BigInt(at) * SECOND;
    const sums = of === undefined ? undefined : { bytes: BigInt(count), durationNs: 2n, longestNs: 1n };
    const loss = { cause: 'shed', service, eventType: null, count, sums, fromNs, toNs: fromNs + 1n } as const;
    const parts = of == null ? [] : [{ ...loss, transactionId: `tx-${of}` }];
    writer.recordLoss(loss, of === undefined ? undefined : parts);
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

  const wanted = (services ?? SERVICES).filter((service) => !excluded?.includes(service));
  const touching = lost.filter((loss) => {
    const service = storedService(loss);
    if (service !== undefined && !wanted.includes(service)) return false;
    if (transaction === undefined) return true;
    if (loss.of !== undefined) return loss.of === transaction;
    // The transaction ran in one service; if the query names services, it may have run in these.
    return service === undefined || services !== undefined || service === SERVICES[transaction];
  });
  const sum = (of: { count: number }[]) => of.reduce((all, { count }) => all + count, 0);
  const told = (gaps: { lost: number }[] = []) => gaps.reduce((all, gap) => all + gap.lost, 0);
  if (transaction === undefined) {
    expect(coverage.lost).toBe(sum(touching));
    expect(told(coverage.others)).toBe(sum(lost) - sum(touching));
    expect(coverage.complete).toBe(touching.length === 0);
    const summed = [...coverage.gaps, ...(coverage.others ?? [])].filter((gap) => gap.bytes !== undefined);
    const bytes = summed.reduce((all, gap) => all + gap.bytes, 0);
    expect(bytes).toBe(sum(lost.filter(({ of }) => of !== undefined)));
  } else {
    // Losses far from the time of a transaction do not count.
    expect(coverage.complete).toBe(coverage.gaps.length === 0);
    expect(coverage.lost).toBeLessThanOrEqual(sum(touching));
    const near = touching.filter(({ at }) => Math.abs(at - transaction) <= 1);
    expect(coverage.lost).toBeGreaterThanOrEqual(sum(near.filter(({ at }) => at === transaction)));
  }
  for (const gap of [...coverage.gaps, ...(coverage.others ?? [])]) {
    if (gap.service !== undefined) expect(SERVICES).toContain(gap.service);
    if ('transaction_id' in gap) expect([gap.transaction_id, 'bytes' in gap]).toEqual([`tx-${transaction}`, true]);
  }
}

test('a reason is read as it was stored, and a reader of causes finds none that it knows', () => {
  for (const service of [undefined, 'shop', 'with a blank', '']) {
    const reason = service === undefined ? { cause: 'marker_flood' } : { cause: 'marker_flood', service };
    expect(parseReason(encodeReason(reason as never))).toEqual(reason);
  }
  expect(encodeReason({ cause: 'marker_flood', service: 'x'.repeat(80) })).toBe('marker_flood');
  expect(parseReason('not known here')).toEqual({ cause: 'unknown' });
});

test('an answer has the bytes and times of calls that were left out, if they belong to its transaction', async () => {
  const folder = newFolder();
  const writer = newWriter(folder);
  appendRows(
    writer,
    [0, 1].map((i) => ({ at: START + BigInt(i), service: 'shop', transaction: `tx-${i}`, duration: SECOND })),
  );
  const lost = { cause: 'shed', service: 'shop', eventType: 'sys_write', fromNs: START, toNs: START + 9n } as const;
  const sums = { bytes: 8192n, durationNs: 1_047_120n, longestNs: 962n };
  const parts = [
    { ...lost, transactionId: 'tx-0', count: 1999, sums },
    { ...lost, transactionId: 'tx-2', count: 3, sums: { ...sums, bytes: 3n } },
  ];
  writer.recordLoss({ ...lost, count: 2005, sums: { ...sums, bytes: 9000n } }, parts);
  writer.close();
  const served = await serve(folder);
  const own = await kreplay('events', '--transaction', 'tx-0', '--url', served.url, '--output', 'ndjson');
  expect(own.stderr).toMatch(
    /^kreplay: warning: 1,999 of 2,001 events are missing .*; they wrote 8 KiB in 1\.05 ms altogether, in up to 962 ns each\n$/,
  );
  const other = await kreplay('events', '--transaction', 'tx-1', '--url', served.url, '--output', 'ndjson');
  expect([other.code, other.stderr]).toEqual([0, '']);
  const { status, json } = await served.get('/api/transactions/tx-2/explain');
  await served.close();
  expect([status, json.code]).toEqual([404, 'transaction_not_found']);
  expect(json.detail).toContain('but 3 calls are missing: see coverage.losses of its events');
});

test('calls of a transaction that were left out long before or behind its recorded ones make its answer incomplete', async () => {
  const folder = newFolder();
  const writer = newWriter(folder);
  appendRows(writer, [{ at: START + 20n * SECOND, service: 'shop', transaction: 'tx-0', duration: SECOND }]);
  const lost = { cause: 'shed', service: 'shop', eventType: 'sys_write', count: 5 } as const;
  for (const at of [2n, 30n, 40n]) {
    const one = { ...lost, fromNs: START + at * SECOND, toNs: START + (at + 1n) * SECOND };
    writer.recordLoss(one, at === 40n ? [] : [{ ...one, transactionId: 'tx-0', count: 2 }]);
    writer.flush();
  }
  writer.close();
  const served = await serve(folder);
  const { coverage } = (await served.get('/api/transactions/tx-0?coverage=full')).json;
  await served.close();
  expect(coverage).toMatchObject({ complete: false, lost: 4 });
  expect(coverage.gaps.map(({ lost: count }: { lost: number }) => count)).toEqual([2, 2]);
});

test('a scope and sums are read as they were stored, and malformed ones are refused', () => {
  const u64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
  const id = fc.string({ minLength: 1, maxLength: 200, unit: 'binary' });
  const scope = fc.oneof(
    fc.constantFrom({}, { isDivided: true }),
    id.map((transactionId) => ({ transactionId })),
  );
  fc.assert(fc.property(scope, (some) => expect(parseScope(encodeScope(some))).toEqual(some)));
  const sums = fc.option(fc.record({ bytes: u64, durationNs: u64, longestNs: u64 }), { nil: undefined });
  fc.assert(fc.property(sums, (some) => expect(parseSums(encodeSums(some))?.sums).toEqual(some)));
  expect([canBePart('order-1'), canBePart('x'.repeat(1024))]).toEqual([true, false]);
  for (const text of [null, 7, 'of', 'of ', 'Divided', 'other', `of ${'x'.repeat(1024)}`])
    expect(parseScope(text)).toBeUndefined();
  const withBytes = (bytes: string) => `{"bytes":${bytes},"duration_ns":1,"longest_ns":1}`;
  const refused = ['{', '[]', '1', 'null', '{"bytes":1}', ...['-1', '1.5', '"1"', 'null', '1e400'].map(withBytes)];
  for (const text of [...refused, null, 7, withBytes('1'.repeat(1024))]) expect(parseSums(text)).toBeUndefined();
});
