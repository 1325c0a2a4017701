/** Tests the fields of an event: byte for byte on the wire, and against the schema that describes them. */
import { apiEventSchema } from '../../../../bpf/schema/api.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../../../bpf/schema/owner.ts';
import { WRITE_SYSCALLS } from '../../../../bpf/schema/sys_write.ts';
import { formatTime } from '../../../../daemon/base/time_text.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { NODE, type Row, recorded, START, WHOLE } from '../../recorded.ts';
import { type Served, serve } from '../../served.ts';
import { readEvents } from '../read_events.ts';

const opened: Served[] = [];
afterAll(() => Promise.all(opened.map((served) => served.close())));

async function served(rows: readonly Row[]): Promise<Served> {
  const one = await serve(recorded(rows));
  opened.push(one);
  return one;
}

const TRACE = '0af7651916cd43dd8448eb211c80319c';

test('a sys_write event has every field and every digit', async () => {
  const { get } = await served([
    {
      at: 2n ** 53n + 1n,
      duration: 2n ** 63n - 1n,
      service: 'shop',
      transaction: 'tx-1',
      trace: TRACE,
      span: 'b7ad6b7169203331',
      source: 'otel',
      quality: 'shared',
      pid: 4_294_967_295,
      tid: 4_294_967_294,
      comm: 'node "x" \u001b[31m',
      cpu: 65_535,
      result: -(2n ** 63n),
      file: '/var/lib/\u{1f4be}/"a"',
      fileKind: 'regular',
      requested: 2n ** 63n + 1n,
      fd: -1,
      syscall: 'pwritev2',
    },
  ]);
  const { text, json } = await get('/api/events');
  const [{ event_id: id }] = json.events;
  expect(id).toMatch(/^[0-9a-f]{16}-0{16}$/);
  const event =
    `{"event_id":"${id}","event_type":"sys_write","timestamp_ns":9007199254740993,"timestamp":"1970-04-15T05:59:59.254740993Z",` +
    `"duration_ns":9223372036854775807,` +
    `"service_name":"shop","transaction_id":"tx-1","trace_id":"${TRACE}","span_id":"b7ad6b7169203331",` +
    `"attribution":{"source":"otel","quality":"shared"},"node":"${NODE}","pid":4294967295,"tid":4294967294,` +
    `"comm":"node \\"x\\" \\u001b[31m","cpu":65535,"result":-9223372036854775808,"error":"errno 9223372036854775808",` +
    `"file":"/var/lib/\u{1f4be}/\\"a\\"","file_kind":"regular","bytes_requested":9223372036854775809,"fd":-1,` +
    `"syscall":"pwritev2"}`;
  expect(text).toBe(`{"events":[${event}],"next_cursor":null,"coverage":${WHOLE}}`);
  expect((await get(`/api/events/${id}`)).text).toBe(event);
  expect((await get('/api/events', { headers: { accept: 'application/x-ndjson' } })).text).toBe(`${event}\n`);
});

test('a block_io event has every field, and only its own origins', async () => {
  const { get } = await served([
    {
      type: 'block_io',
      at: 2n ** 63n - 1n,
      transaction: 'tx-1',
      source: 'origin',
      sector: 2n ** 64n - 2n,
      bytes: 2n ** 53n + 1n,
      queue: 0n,
      operation: 'flush',
      device: 'nvme0n1',
      origins: [
        { service: 'shop', transaction: 'tx-1', bytes: 2n ** 63n - 1n },
        { service: 'kernel', bytes: 0n },
      ],
    },
  ]);
  const { text } = await get('/api/events');
  expect(text).toContain('"timestamp_ns":9223372036854775807,"timestamp":"2262-04-11T23:47:16.854775807Z",');
  expect(text).toContain(
    '"error":null,"sector":18446744073709551614,"bytes":9007199254740993,"queue_ns":0,"operation":"flush","unnamed_bytes":0,' +
      '"device":"nvme0n1","queued_by":null,"origins":[{"service_name":"shop","transaction_id":"tx-1","bytes":9223372036854775807},' +
      '{"service_name":"kernel","transaction_id":null,"bytes":0}]}',
  );
});

test('what is unknown is null', async () => {
  const { get } = await served([{ at: START }, { type: 'block_io', at: START + 1n }]);
  const [write, block] = (await get('/api/events')).json.events;
  expect(write).toMatchObject({
    transaction_id: null,
    trace_id: null,
    span_id: null,
    attribution: { source: 'none', quality: 'none' },
    error: null,
    file: null,
    file_kind: 'unknown',
    bytes_requested: null,
  });
  expect(block).toMatchObject({ queue_ns: null, origins: [] });
});

test.each([
  [-28n, 'ENOSPC'],
  [-11n, 'EAGAIN'],
  [-95n, 'EOPNOTSUPP'],
  [-32n, 'EPIPE'],
  [-122n, 'EDQUOT'],
  [-117n, 'EUCLEAN'],
  [-512n, 'EINTR'],
  [-516n, 'EINTR'],
  [-4095n, 'errno 4095'],
  [0n, null],
  [1n, null],
])('result %s is error %s', async (result, error) => {
  const { get } = await served([{ at: START, result }]);
  expect((await get('/api/events')).json.events[0].error).toBe(error);
});

test('every value of every enumerated field fits the schema', () => {
  const owned: Row[] = ATTRIBUTION_SOURCES.flatMap((source) =>
    ATTRIBUTION_QUALITIES.map((quality): Row => ({ at: START, transaction: 'tx', source, quality })),
  );
  const writes = Object.keys(WRITE_SYSCALLS).map((syscall) => ({ at: START, syscall }) as Row);
  const blocks = ['read', 'write', 'flush', 'discard', 'other'].map(
    (operation) => ({ type: 'block_io', at: START, operation, origins: [{ transaction: 'tx', bytes: 1n }] }) as Row,
  );
  const store = openRecordingStore(recorded([...owned, ...writes, ...blocks]));
  const events = readEvents(store, { filter: {}, order: 'asc', limit: 1000 });
  expect(events).toHaveLength(owned.length + writes.length + blocks.length);
  // The schema is strict: an unknown field fails like a missing one.
  for (const event of events) expect(apiEventSchema.parse(event)).toEqual(event);
  store.close();
});

test('a missing event is not found', async () => {
  const { get } = await served([{ at: START }]);
  const id: string = (await get('/api/events')).json.events[0].event_id;
  const others = [
    id.replace(/0$/, '1'),
    id.replace(/-.*/, '-ffffffffffffffff'),
    `0000000000000000-${id.slice(-16)}`,
    id.toUpperCase().replace(/^/, 'A'),
    'x',
    encodeURIComponent('../../etc/passwd'),
    encodeURIComponent("' OR 1=1 --"),
    '%00',
  ];
  for (const other of others) {
    const { status, json } = await get(`/api/events/${other}`);
    expect([other, status, json.code]).toEqual([other, 404, 'event_not_found']);
  }
});

test('a transaction has the names that filters accept', async () => {
  const { get } = await served([
    { at: START + 5n, duration: 10n, service: 'shop', transaction: 'a/b', trace: TRACE, result: -5n },
    { at: START, duration: 1n, service: 'cart', transaction: 'a/b' },
    { at: START, service: 'other' },
  ]);
  const { text, json } = await get('/api/transactions/a%2Fb');
  expect(text).toContain(
    `"first_timestamp_ns":${START},"first_timestamp":"${formatTime(START)}","last_end_ns":${START + 15n},` +
      `"last_end":"${formatTime(START + 15n)}","duration_ns":15,`,
  );
  expect(json).toMatchObject({ transaction_id: 'a/b', event_count: 2, error_count: 1, services: ['cart', 'shop'] });
  expect((await get(`/api/events/${json.slowest_event_id}`)).json.duration_ns).toBe(10);
  const missing = await get('/api/transactions/none');
  expect([missing.status, missing.json.code]).toEqual([404, 'transaction_not_found']);

  expect((await get('/api/services')).json).toEqual({ services: ['cart', 'other', 'shop'] });
  expect((await get('/api/nodes')).json).toEqual({ nodes: [NODE] });
  const { event_types: types } = (await get('/api/event-types')).json;
  expect(types.map(({ name }: { name: string }) => name)).toEqual(['sys_write', 'block_io', 'sys_sync']);
});
