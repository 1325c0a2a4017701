/** Tests each query parameter, then random combinations of them against a plain filter over the recorded rows. */
import fc from 'fast-check';
import { formatMilliseconds } from '../../../daemon/base/duration.ts';
import { times } from '../../repeats.ts';
import { type BlockRow, NODE, type Row, recorded, START, WHOLE, type WriteRow } from '../recorded.ts';
import { type Served, serve, served as servedHere } from '../served.ts';

const SERVICES = ['shop', 'cart', 'database', 'naïve 服务'];
const TRANSACTIONS = ['tx-1', 'tx-2', 'tx 3/ü'];
const TRACES = ['0af7651916cd43dd8448eb211c80319c', 'ffffffffffffffffffffffffffffffff'];
const COMMS = ['node', 'postgres', 'a b+c%'];
const MS = 1_000_000n;

/** A spread in which every value of every field meets most values of the others, some at the same nanosecond. */
const rows: Row[] = Array.from({ length: 600 }, (_, i): Row => {
  const transaction = TRANSACTIONS[i % 4];
  const trace = TRACES[i % 5];
  const common = {
    at: START + BigInt(Math.floor(((i * 7919) % 600) / 3)) * MS,
    duration: BigInt((i * 37) % 101) * 50_000n,
    service: SERVICES[i % SERVICES.length]!,
    ...(transaction !== undefined && { transaction }),
    ...(trace !== undefined && { trace }),
    pid: 100 + (i % 3),
    comm: COMMS[(i >> 1) % COMMS.length]!,
    result: i % 6 === 0 ? -28n : BigInt(i),
  };
  if (i % 3 !== 0) return common;
  const origins =
    i % 9 === 0
      ? [
          { service: 'database', transaction: 'tx-2', bytes: 512n },
          { service: 'cart', bytes: 1n },
        ]
      : [];
  return { ...common, type: 'block_io', origins };
});

let served: Served;
beforeAll(async () => {
  served = await serve(recorded(rows));
});
afterAll(() => served.close());

async function ids(query: string): Promise<string[]> {
  const { status, json } = await served.get(`/api/events?limit=10000&${query}`);
  expect(status).toBe(200);
  return json.events.map((event: { event_id: string }) => event.event_id);
}

/** Event numbers are indices of `rows`, because the rows were appended in this order. */
function rowsOf(eventIds: readonly string[]): Row[] {
  return eventIds.map((id) => rows[Number.parseInt(id.slice(-16), 16)]!);
}

async function expectOnly(query: string, matches: (row: Row) => boolean): Promise<void> {
  const found = rowsOf(await ids(query));
  expect(found.length).toBeGreaterThan(0);
  expect(found.length).toBeLessThan(rows.length);
  expect(new Set(found)).toEqual(new Set(rows.filter(matches)));
}

const ownedBy = (row: Row, matches: (owner: { service?: string; transaction?: string }) => boolean) =>
  matches(row) || ((row as BlockRow).origins ?? []).some(matches);

test('without parameters all events are returned in order', async () => {
  const all = await ids('');
  expect(all.length).toBe(rows.length);
  const keys = rowsOf(all).map((row, i) => `${row.at} ${all[i]}`);
  expect(keys).toEqual([...keys].sort());
});

test('desc is the reverse of asc', async () => {
  expect((await ids('order=desc')).reverse()).toEqual(await ids('order=asc'));
});

test('transaction_id finds owners and origins', () =>
  expectOnly('transaction_id=tx-2', (row) => ownedBy(row, ({ transaction }) => transaction === 'tx-2')));

test('a transaction_id may be any text', () =>
  expectOnly(`transaction_id=${encodeURIComponent('tx 3/ü')}`, (row) => row.transaction === 'tx 3/ü'));

test('trace_id is case-insensitive', () =>
  expectOnly(`trace_id=${TRACES[0]!.toUpperCase()}`, (row) => row.trace === TRACES[0]));

test.each(['service=cart,shop', 'service=cart&service=shop', 'service=shop,cart,shop', 'service=+shop,+cart'])(
  '%s is a list',
  (query) => expectOnly(query, (row) => ownedBy(row, ({ service }) => service === 'cart' || service === 'shop')),
);

test('a service may have a Unicode name', () =>
  expectOnly(`service=${encodeURIComponent('naïve 服务')}`, (row) => row.service === 'naïve 服务'));

test('a service may contain a comma or have surrounding spaces', async () => {
  const { get } = await servedHere(
    recorded(['a, b', ' b', 'b', 'a'].map((service, i) => ({ at: START + BigInt(i), service, transaction: service }))),
  );
  const found = async (parameter: string) => {
    const { json } = await get(`/api/events?service=${encodeURIComponent(parameter)}`);
    const { json: listed } = await get(`/api/transactions?service=${encodeURIComponent(parameter)}`);
    const names = json.events.map((event: { service_name: string }) => event.service_name);
    expect(listed.transactions.map((one: { transaction_id: string }) => one.transaction_id)).toEqual(
      names.toReversed(),
    );
    return names;
  };
  expect(await found('a, b')).toEqual(['a, b', ' b', 'b', 'a']);
  expect(await found('a')).toEqual(['a']);
  expect(await found('b')).toEqual(['b']);
  expect(await found(' b')).toEqual([' b', 'b']);
});

test('event_type', () => expectOnly('event_type=block_io', (row) => row.type === 'block_io'));

test('event_type may list all types', async () => {
  expect(await ids('event_type=block_io,+sys_write')).toEqual(await ids(''));
  expect(await ids('event_type=block_io&event_type=sys_write')).toEqual(await ids(''));
});

test('node', async () => {
  expect((await ids(`node=${NODE}`)).length).toBe(rows.length);
  expect((await ids(`node=other,${NODE}`)).length).toBe(rows.length);
  expect(await ids('node=other')).toEqual([]);
});

test('the time window is half-open', async () => {
  const [from, to] = [START + 10n * MS, START + 20n * MS];
  const inside = ({ at }: Row) => at >= from && at < to;
  await expectOnly(`from=${from}&to=${to}`, inside);
  await expectOnly('from=2025-11-21T00:00:00.01Z&to=2025-11-21T01:00:00.020%2B01:00', inside);
  expect(rowsOf(await ids(`from=${from}`)).some(({ at }) => at === from)).toBe(true);
  expect(await ids(`from=${from}&to=${from}`)).toEqual([]);
  expect(await ids(`from=${from + 1n}&to=${from + MS}`)).toEqual([]);
});

test('relative times are relative to the time of the request', async () => {
  served.setNow(START + 50n * MS);
  await expectOnly('from=-30ms&to=-10ms', ({ at }) => at >= START + 20n * MS && at < START + 40n * MS);
  served.setNow(START);
});

test('times outside 64 bits are accepted as very early or late', async () => {
  expect((await ids('from=1960-01-01T00:00:00Z&to=9999-12-31T23:59:59Z')).length).toBe(rows.length);
  expect(await ids('from=9999-12-31T23:59:59Z')).toEqual([]);
  expect(await ids('to=1960-01-01T00:00:00Z')).toEqual([]);
  expect((await ids('to=18446744073709551616')).length).toBe(rows.length);
});

test('durations are inclusive', async () => {
  await expectOnly('min_duration_ms=1&max_duration_ms=2', ({ duration }) => duration! >= MS && duration! <= 2n * MS);
  await expectOnly('min_duration_ms=0.05&max_duration_ms=0.05', ({ duration }) => duration === 50_000n);
  expect(await ids('min_duration_ms=0.050001&max_duration_ms=0.099999')).toEqual([]);
});

test('pid', () => expectOnly('pid=101', ({ pid }) => pid === 101));
test('comm', () => expectOnly(`comm=${encodeURIComponent('a b+c%')}`, ({ comm }) => comm === 'a b+c%'));
test('a plus is a space', () => expectOnly('comm=a+b%2Bc%25', ({ comm }) => comm === 'a b+c%'));
test('failed', () => expectOnly('failed=true', ({ result }) => result! < 0n));
test('not failed', () => expectOnly('failed=false', ({ result }) => result! >= 0n));

test('a query for unrecorded values has an empty answer', async () => {
  for (const query of [
    'transaction_id=none',
    `trace_id=${'0'.repeat(32)}`,
    'service=none',
    'pid=4294967295',
    'comm=none',
  ])
    expect([query, await ids(query)]).toEqual([query, []]);
  expect((await served.get('/api/events?service=none')).text).toBe(
    `{"events":[],"next_cursor":null,"coverage":${WHOLE}}`,
  );
});

const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 2 });
const someOf = (values: readonly string[]) => optional(fc.subarray([...values], { minLength: 1 }));
const offsets = fc.integer({ min: -1, max: 201 }).map((ms) => START + BigInt(ms) * MS);
const durations = fc.integer({ min: 0, max: 101 }).map((steps) => BigInt(steps) * 50_000n);

const queries = fc.record({
  transaction_id: optional(fc.constantFrom(...TRANSACTIONS)),
  trace_id: optional(fc.constantFrom(...TRACES)),
  service: someOf(SERVICES),
  event_type: someOf(['sys_write', 'block_io']),
  node: fc.option(fc.constantFrom(NODE, 'other'), { nil: undefined, freq: 4 }),
  from: optional(offsets),
  to: optional(offsets),
  min_duration_ms: optional(durations),
  max_duration_ms: optional(durations),
  pid: optional(fc.constantFrom(100, 101, 102)),
  comm: optional(fc.constantFrom(...COMMS)),
  failed: optional(fc.boolean()),
  order: optional(fc.constantFrom('asc', 'desc')),
});
type Asked = typeof queries extends fc.Arbitrary<infer T> ? T : never;

function matches(row: Row, asked: Asked): boolean {
  const write = row as WriteRow;
  const duration = row.duration!;
  return (
    (asked.transaction_id === undefined || ownedBy(row, (owner) => owner.transaction === asked.transaction_id)) &&
    (asked.trace_id === undefined || write.trace === asked.trace_id) &&
    (!asked.service || ownedBy(row, (owner) => asked.service!.includes(owner.service!))) &&
    asked.node !== 'other' &&
    (!asked.event_type || asked.event_type.includes(row.type ?? 'sys_write')) &&
    (asked.from === undefined || row.at >= asked.from) &&
    (asked.to === undefined || row.at < asked.to) &&
    (asked.min_duration_ms === undefined || duration >= asked.min_duration_ms) &&
    (asked.max_duration_ms === undefined || duration <= asked.max_duration_ms) &&
    (asked.pid === undefined || row.pid === asked.pid) &&
    (asked.comm === undefined || row.comm === asked.comm) &&
    (asked.failed === undefined || row.result! < 0n === asked.failed)
  );
}

function urlOf(asked: Asked): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) {
    if (value === undefined) continue;
    if (Array.isArray(value)) for (const item of value) parameters.append(name, item);
    else if (name.endsWith('_ms')) parameters.set(name, formatMilliseconds(value as bigint));
    else parameters.set(name, String(value));
  }
  return parameters.toString();
}

test('a combination of filters is the conjunction of its parts', async () => {
  await fc.assert(
    fc.asyncProperty(queries, async (asked) => {
      fc.pre(asked.from === undefined || asked.to === undefined || asked.from <= asked.to);
      const { min_duration_ms: min, max_duration_ms: max } = asked;
      fc.pre(min === undefined || max === undefined || min <= max);
      const found = await ids(urlOf(asked));
      expect(found.map((id) => Number.parseInt(id.slice(-16), 16))).toEqual(expectedNumbers(asked));
    }),
    { numRuns: times(60) },
  );
});

function expectedNumbers(asked: Asked): number[] {
  const numbers = rows
    .map((row, number) => ({ row, number }))
    .filter(({ row }) => matches(row, asked))
    .sort((a, b) => (a.row.at < b.row.at ? -1 : a.row.at > b.row.at ? 1 : a.number - b.number))
    .map(({ number }) => number);
  return asked.order === 'desc' ? numbers.reverse() : numbers;
}

test('pages of any size add up to the whole answer', async () => {
  await fc.assert(
    fc.asyncProperty(queries, fc.integer({ min: 1, max: 40 }), async (asked, size) => {
      fc.pre(asked.from === undefined || asked.to === undefined || asked.from <= asked.to);
      const { min_duration_ms: min, max_duration_ms: max } = asked;
      fc.pre(min === undefined || max === undefined || min <= max);
      const expected = expectedNumbers(asked);
      // Pages of a single event are requested only if there are few events.
      const limit = Math.max(size, Math.ceil(expected.length / 12));
      const found: string[] = [];
      for (let cursor = ''; cursor !== 'null'; ) {
        const { json } = await served.get(`/api/events?${urlOf(asked)}&limit=${limit}${cursor && `&cursor=${cursor}`}`);
        const page: { event_id: string }[] = json.events;
        cursor = String(json.next_cursor);
        // Only the last page may be partly filled, and it is empty only if there are no events at all.
        expect(cursor === 'null' ? page.length <= limit : page.length === limit).toBe(true);
        expect(page.length > 0 || found.length === 0).toBe(true);
        found.push(...page.map(({ event_id: id }) => id));
      }
      expect(found.map((id) => Number.parseInt(id.slice(-16), 16))).toEqual(expected);
    }),
    { numRuns: times(15) },
  );
});

test('a stream without pages has the same events', async () => {
  await fc.assert(
    fc.asyncProperty(queries, async (asked) => {
      fc.pre(asked.from === undefined || asked.to === undefined || asked.from <= asked.to);
      const { min_duration_ms: min, max_duration_ms: max } = asked;
      fc.pre(min === undefined || max === undefined || min <= max);
      const query = urlOf(asked);
      const { text } = await served.get(`/api/events?limit=10000&${query}`);
      const lines = await served.lines(`/api/events?${query}`);
      expect(text.startsWith(`{"events":[${lines.join(',')}],"next_cursor":null,`)).toBe(true);
    }),
    { numRuns: times(12) },
  );
});
