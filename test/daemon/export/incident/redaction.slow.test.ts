/** Tests that a redacted export contains no recorded text, in any format, and keeps everything that is not text. */
import { readFileSync } from 'node:fs';
import { createBlock } from '../../../../bpf/schema/block.ts';
import { parseJson } from '../../../../daemon/base/exact_json.ts';
import { FORMATS, type FormatName } from '../../../../daemon/export/formats/format.ts';
import { createRedaction } from '../../../../daemon/export/incident/redaction.ts';
import { createRecordingDictionary } from '../../../../daemon/store/blocks/scanned_block.ts';
import { NODE, type Row, recorded, START } from '../../recorded.ts';
import { exported, recordedEvents, SPAN, TRACE } from '../exported.ts';

const TRACE_2 = '1af7651916cd43dd8448eb211c80319d';

const ROWS: readonly Row[] = [
  {
    at: START,
    service: 'acme-shop',
    transaction: 'order-8812',
    trace: TRACE,
    span: SPAN,
    comm: 'acmed',
    file: '/srv/customer-data/ledger.acme',
    requested: 4096n,
  },
  { at: START + 1n, service: 'acme-shop', transaction: 'order-8812', comm: 'acmed', file: '/srv/customer-data/secret' },
  { at: START + 2n, service: 'acme-cart', transaction: 'order-8813', trace: TRACE_2, file: '/srv/acme-shop (deleted)' },
  { at: START + 3n, service: 'acme-cart', comm: 'acme-cart', file: 'socket:[4711]', fileKind: 'socket' },
  { at: START + 4n, service: 'acme-cart', file: '.../customer-data/ledger.acme' },
  { at: START + 5n, service: 'acme-cart', file: 'anon_inode:[acme-poll]', fileKind: 'anonymous' },
  {
    type: 'block_io',
    at: START + 6n,
    service: 'kernel-flusher',
    device: 'acme-nvme7',
    comm: 'kworker-acme',
    origins: [
      { service: 'acme-shop', transaction: 'order-8812', bytes: 1n },
      { service: 'acme-billing', transaction: 'order-9999', bytes: 2n },
    ],
  },
];

/** All texts that users chose, whole and in parts. */
const SECRETS = [
  ...['acme', 'order-', 'customer', 'ledger', 'secret', 'srv', 'kworker', 'flusher', 'nvme7'],
  ...[TRACE, TRACE_2, SPAN, NODE],
];

function withLosses(rows: readonly Row[]): string {
  const lost = { eventType: 'sys_write', count: 2, fromNs: START, toNs: START + 1n } as const;
  const sums = { bytes: 7n, durationNs: 8n, longestNs: 5n };
  return recorded(rows, (writer) => {
    writer.recordLoss({ ...lost, cause: 'ring_full' });
    const shed = { ...lost, cause: 'shed', service: 'ledger', sums } as const;
    writer.recordLoss(shed, [{ ...shed, transactionId: 'order-secret' }]);
    writer.recordLoss({ ...shed, service: 'acme' });
  });
}

async function redactedEvents(data: string): Promise<Record<string, unknown>[]> {
  const { path } = await exported(data, 'ndjson', { redact: true });
  const lines = readFileSync(path, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => parseJson(line) as Record<string, unknown>);
}

test.each(Object.keys(FORMATS) as FormatName[])('%s contains none of the texts', async (format) => {
  const data = withLosses(ROWS);
  const recordingId = (recordedEvents(data)[0]!.event_id as string).slice(0, 16);
  const search = (bytes: Buffer) => [...SECRETS, recordingId].filter((secret) => bytes.includes(secret));
  const { path, events } = await exported(data, format, { redact: true });
  expect(search(readFileSync(path))).toEqual([]);
  expect(events).toBe(ROWS.length);
  const open = await exported(data, format);
  // These formats are not compressed, so a search that finds nothing is conclusive.
  if (FORMATS[format].kind === 'stream') expect(search(readFileSync(open.path))).toContain('acme');
});

test('the same text has the same pseudonym, and folders stay folders', async () => {
  const events = await redactedEvents(withLosses(ROWS));
  const values = (name: string) => events.map((event) => event[name]);
  expect(values('service_name')).toEqual([
    ...['service-1', 'service-1', 'service-2', 'service-2', 'service-2', 'service-2', 'service-3'],
  ]);
  expect(values('comm')).toEqual(['comm-1', 'comm-1', 'comm-2', 'comm-3', 'comm-2', 'comm-2', 'comm-4']);
  expect(values('file')).toEqual([
    '/path-1/path-2/path-3',
    '/path-1/path-2/path-4',
    '/path-1/path-5 (deleted)',
    'socket:[4711]',
    '.../path-2/path-3',
    'path-6',
    undefined,
  ]);
  expect(values('transaction_id')).toEqual([
    ...['transaction-1', 'transaction-1', 'transaction-2', null, null, null, null],
  ]);
  expect(values('trace_id').slice(0, 3)).toEqual(['1'.padStart(32, '0'), null, '2'.padStart(32, '0')]);
  expect(values('span_id')[0]).toBe('1'.padStart(16, '0'));
  expect(events[6]).toMatchObject({
    device: 'device-1',
    node: 'node-1',
    origins: [
      { service_name: 'service-1', transaction_id: 'transaction-1', bytes: 1 },
      { service_name: 'service-4', transaction_id: 'transaction-3', bytes: 2 },
    ],
  });
});

test('spans of one transaction and trace stay apart', async () => {
  const spans = ['00f067aa0ba902b7', '00f067aa0ba902b8', '00f067aa0ba902b7'];
  const rows = spans.map((span, i) => ({ at: START + BigInt(i), service: 'a', transaction: 't', trace: TRACE, span }));
  const ids = (await redactedEvents(withLosses(rows))).map(({ span_id }) => Number(span_id));
  expect(ids).toEqual([1, 2, 1]);
});

test('numbers, times and words of the schema are kept', async () => {
  const data = withLosses(ROWS);
  const kept = ['timestamp_ns', 'duration_ns', 'pid', 'tid', 'cpu', 'result', 'attribution', 'file_kind', 'syscall'];
  const numbersOf = (event: Record<string, unknown>) =>
    Object.fromEntries([...kept, 'bytes_requested', 'event_type'].map((name) => [name, String(event[name])]));
  expect((await redactedEvents(data)).map(numbersOf)).toEqual(recordedEvents(data).map(numbersOf));
});

test('an export is repeatable, except for the recording id of its events', async () => {
  const data = withLosses(ROWS);
  const [first, second] = [await redactedEvents(data), await redactedEvents(data)];
  const place = (event: Record<string, unknown>) => (event.event_id as string).slice(16);
  const withPlace = (event: Record<string, unknown>) => ({ ...event, event_id: place(event) });
  expect(second.map(withPlace)).toEqual(first.map(withPlace));
  const ids = [...first, ...second].map(({ event_id: id }) => id);
  expect(new Set(ids).size).toBe(2 * ROWS.length);
  expect(new Set(ids.map((id) => (id as string).slice(0, 16))).size).toBe(2);
});

test('more names than can be remembered are reported', () => {
  const source = createRecordingDictionary({
    ...{ recordingId: '0123456789abcdef', node: NODE },
    name: (id) => `name-${id}`,
    file: () => undefined,
    context: () => ({ transactionId: null, traceId: null, spanId: null }),
  });
  const { redact } = createRedaction(source);
  const block = { ...createBlock(4096), rowCount: 4096, numbers: new BigUint64Array(4096) };
  const comm = block.columns.get('comm') as Uint32Array;
  const redactAll = () => {
    for (let next = 1; next < 1_100_000; next += 4096) {
      for (let i = 0; i < 4096; i++) comm[i] = next + i;
      redact({ block, dictionary: source });
    }
  };
  expect(redactAll).toThrow('more than 1000000 names to redact: export a shorter window at a time');
});
