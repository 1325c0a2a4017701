/** The table beside a picture: every event, with all digits. */
import { createEventTable, HEADINGS, PAGE_ROWS } from '../../daemon/page/table/rows.ts';
import { columnsOf } from '../daemon/model/columns/made_columns.ts';

const LONG_NS = 2n ** 53n + 1n;
const columns = columnsOf([
  { start: 0, duration: 31_302_187, result: 4096, bytes: 4096, number: 1 },
  {
    ...{ start: LONG_NS, duration: 2n ** 63n - 1n, type: 'block_io', number: 2n ** 53n + 3n, result: -28 },
    ...{ queue: 30_100_000, bytes: 2n ** 60n, transaction: null, source: 'origin', quality: 'shared' },
    origins: [
      ['shop', 'order-1', 4096],
      ['backup', null, 512],
    ],
  },
  { start: LONG_NS + 1n, source: 'none', target: null, result: -5, transaction: null },
]);

const textsOf = (cells: readonly string[]) => Object.fromEntries(HEADINGS.map((heading, i) => [heading, cells[i]]));

test('cells have all digits, and nothing where the event has no such value', () => {
  const table = createEventTable(columns, -5n);
  expect(table.formatLine(0)).toHaveLength(HEADINGS.length);
  expect(textsOf(table.formatLine(0))).toEqual({
    ...{
      Start: '+0.000005 ms',
      'Time (UTC)': '2025-11-24 16:00:00.123456789',
      Duration: '31.302187 ms',
      Event: 'sys_write',
    },
    ...{ Call: 'write', 'File or device': '/srv/wal', Result: '4 096', Bytes: '4 096 B', Queue: '', Node: 'n1' },
    ...{ Service: 'shop', Command: 'worker', pid: '7', tid: '8', Transaction: 'order-1' },
    ...{ 'Owner known by': 'marker, exact', Origins: '', 'Event id': '00000000000000aa-0000000000000001' },
  });
  expect(textsOf(table.formatLine(1))).toMatchObject({
    ...{ Start: '+9 007 199 254.740998 ms', Duration: '9 223 372 036 854.775807 ms', Result: 'ENOSPC' },
    ...{ 'Time (UTC)': '2026-03-08 21:59:59.378197782', Bytes: '1 152 921 504 606 846 976 B', Queue: '30.1 ms' },
    ...{ Transaction: '', 'Owner known by': 'origin, shared', Origins: 'shop order-1 4 096 B; backup 512 B' },
    'Event id': '00000000000000aa-0020000000000003',
  });
  expect(textsOf(table.formatLine(2))).toMatchObject({ 'File or device': '', Result: 'errno 5', 'Owner known by': '' });
});

test('a table of some events in their order, and its pages', () => {
  const table = createEventTable(columns, 0n, Uint32Array.of(2, 0));
  expect([table.rowCount, table.pageCount, table.getRow(0), table.findLine(0), table.findLine(1)]).toEqual([
    2, 1, 2, 1, -1,
  ]);
  const all = createEventTable(columns);
  expect([all.getRow(1), all.findLine(2), all.findLine(3), all.computePageLines(0)]).toEqual([1, 2, -1, [0, 3]]);
  const long = createEventTable(columns, 0n, new Uint32Array(2 * PAGE_ROWS + 1));
  expect([long.pageCount, long.computePageLines(1), long.computePageLines(2)]).toEqual([
    3,
    [10_000, 20_000],
    [20_000, 20_001],
  ]);
});
