/** Tests that other programs can read text exports, and that no information is lost on the way there and back. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { parseJson } from '../../../../daemon/base/exact_json.ts';
import { CSV_COLUMNS, formatCsvLine } from '../../../../daemon/export/formats/csv_lines.ts';
import { type Row, recorded, START } from '../../recorded.ts';
import { serve } from '../../served.ts';
import { CORNER_ROWS, exported, I64_MAX, readWith, recordedEvents, U64_MAX } from '../exported.ts';

/** Reads with Python's csv module, as rows of texts; newline='' keeps a CRLF inside a field. */
const READ_CSV = `
import csv, io, json, sys
text = io.TextIOWrapper(sys.stdin.buffer, encoding='utf8', newline='')
print(json.dumps(list(csv.reader(text, strict=True))))`;

function readCsv(text: string): string[][] {
  return JSON.parse(readWith('python3', ['-c', READ_CSV], text));
}

/** Converts a cell as a reader does that has the type of each column. */
function meant(cell: string, type: string): unknown {
  if (type !== 'text') return cell === '' ? null : BigInt(cell);
  return /^'['=+\-@\t\r]/.test(cell) ? cell.slice(1) : cell;
}

/** The same values from an event; a CSV does not distinguish an empty text from none. */
function flat(event: Record<string, unknown>): unknown[] {
  return CSV_COLUMNS.map((column) => {
    const value = column.getValue(event as never);
    if (column.type === 'text') return value ?? '';
    return value === null ? null : BigInt(value);
  });
}

test('Python reads a header and every value of every field', async () => {
  const data = recorded(CORNER_ROWS);
  const { path, events, bytes } = await exported(data, 'csv');
  const text = readFileSync(path, 'utf8');
  const [header, ...rows] = readCsv(text);
  expect([events, bytes]).toEqual([CORNER_ROWS.length, Buffer.byteLength(text)]);
  expect(header).toEqual(CSV_COLUMNS.map(({ name }) => name));
  expect(rows.map((row) => row.map((cell, i) => meant(cell, CSV_COLUMNS[i]!.type)))).toEqual(
    recordedEvents(data).map(flat),
  );
  expect(text.endsWith('\r\n')).toBe(true);
});

test('the origins are the same text as in the API', async () => {
  const data = recorded(CORNER_ROWS);
  const [header, ...rows] = readCsv(readFileSync((await exported(data, 'csv')).path, 'utf8'));
  const origins = rows.map((row) => row[header!.indexOf('origins')]);
  expect(origins).toEqual([
    ...['', '', ''],
    `[{"service_name":"shop","transaction_id":"order-1","bytes":${I64_MAX}},` +
      '{"service_name":"kernel","transaction_id":null,"bytes":0}]',
    ...['[]', '[]'],
  ]);
});

test.each(['=1+1', '+1', '-1', '@sum', '\tx', '\rx', "'x"])('%j is not a formula for a spreadsheet', (text) => {
  const [[cell]] = readCsv(formatCsvLine([text])) as [[string]];
  expect(cell).toBe(`'${text}`);
  expect(formatCsvLine([-1n, -1])).toBe('-1,-1\r\n');
});

test('a JSON line is the line that the daemon returns', async () => {
  const data = recorded(CORNER_ROWS);
  const served = await serve(data);
  const { text } = await served.get('/api/events', { headers: { accept: 'application/x-ndjson' } });
  await served.close();
  const { path } = await exported(data, 'ndjson');
  expect(readFileSync(path, 'utf8')).toBe(text);
  expect(readWith('jq', ['-r', '.fd // empty'], readFileSync(path))).toBe('-1\n1\n1\n');
});

const text = fc
  .string({ unit: 'binary', minLength: 1, maxLength: 12 })
  .filter((value) => !/[\0\ud800-\udfff]/.test(value));
const u64 = fc.bigInt({ min: 0n, max: U64_MAX - 1n });

const row: fc.Arbitrary<Row> = fc.record(
  {
    at: fc.bigInt({ min: START, max: START + 1000n }),
    duration: fc.bigInt({ min: 0n, max: 2n ** 62n }),
    service: text,
    transaction: text,
    comm: text,
    result: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    file: text,
    requested: u64,
    fd: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
  },
  { requiredKeys: ['at'] },
);

test('any recording survives CSV and NDJSON unchanged', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 40 }), async (rows) => {
      const data = recorded(rows);
      const events = recordedEvents(data);
      const [, ...cells] = readCsv(readFileSync((await exported(data, 'csv')).path, 'utf8'));
      expect(cells.map((line) => line.map((cell, i) => meant(cell, CSV_COLUMNS[i]!.type)))).toEqual(events.map(flat));
      const lines = readFileSync((await exported(data, 'ndjson')).path, 'utf8')
        .split('\n')
        .slice(0, -1);
      expect(lines.map((line) => flat(parseJson(line) as Record<string, unknown>))).toEqual(events.map(flat));
    }),
    { numRuns: 10 },
  );
});
