/** Tests the blocks that a recording's segments become, against events and sums that are computed one by one. */
import { decodeBlocks } from '../../../agent/clickhouse/native/decode.ts';
import { decodeText, type Texts } from '../../../agent/clickhouse/native/texts.ts';
import type { NativeType } from '../../../agent/clickhouse/native/types.ts';
import { openReader } from '../../../agent/recording/read/reader.ts';
import { chooseNextGroup } from '../../../agent/ship/groups.ts';
import { groupRows } from '../../../agent/ship/rows/group_rows.ts';
import { type Row, recorded, recordingPath, START } from '../../daemon/recorded.ts';
import { type CentreRow, eventOf } from '../../ship/centre.ts';
import { expectSame } from '../../ship/fleet.ts';
import { loadRows, randomNumbers } from '../../ship/load.ts';
import { eventsOf, servicesOf, textOf } from '../../ship/plain_events.ts';
import { statsIn, statsOf, summariesIn, summariesOf } from '../../ship/plain_sums.ts';

type Simple = Texts | { readonly [row: number]: number | bigint; buffer: ArrayBufferLike; byteOffset: number };

function cellOf(type: NativeType, values: Simple, row: number): string | number {
  if ('table' in values) return decodeText(values, row);
  const value = values[row]!;
  if (type.kind !== 'fixed_text') return typeof value === 'bigint' ? String(value) : value;
  return Buffer.from(values.buffer, values.byteOffset + row * type.bytes, type.bytes).toString('hex');
}

/** The rows of blocks, with numbers of 64 bits as texts and texts of fixed length in hexadecimal digits. */
async function rowsIn(blocks: readonly Buffer[]): Promise<CentreRow[]> {
  const rows: CentreRow[] = [];
  async function* chunks() {
    yield* blocks;
  }
  for await (const { rowCount, columns } of decodeBlocks(chunks())) {
    for (let row = 0; row < rowCount; row++) {
      const cells = [...columns].map(([name, { type, values }]) => {
        if (!('items' in values)) return [name, cellOf(type, values as Simple, row)] as const;
        const from = Number(values.ends[row - 1] ?? 0);
        const item = (type as NativeType & { kind: 'list' }).item;
        const list = Array.from({ length: Number(values.ends[row]) - from }, (_, i) =>
          cellOf(item, values.items as Simple, from + i),
        );
        return [name, list] as const;
      });
      rows.push(Object.fromEntries(cells));
    }
  }
  return rows;
}

/** The rows of all tables that the groups of a recording fill. */
async function tablesOf(folder: string, eventsMax: number): Promise<Map<string, CentreRow[]>> {
  const reader = openReader(recordingPath(folder));
  const rows = groupRows(reader);
  const tables = new Map<string, CentreRow[]>();
  const add = (table: string, more: CentreRow[]) => tables.set(table, [...(tables.get(table) ?? []), ...more]);
  for (let from = 0; ; ) {
    const group = chooseNextGroup(reader, from, { eventsMax });
    if (!group) break;
    rows.begin();
    for (const segment of group.segments) {
      const read = reader.readSealedEvents(segment);
      if (read.kind !== 'events') throw new Error(read.kind);
      add('event', await rowsIn([rows.add(read.block, segment.firstNumber, group.typeMask)!]));
    }
    for (const { table, blocks } of rows.readBesideTables()) add(table, await rowsIn(blocks));
    from = group.end;
  }
  reader.close();
  return tables;
}

/** A column that no event of a recording fills is not sent. */
const UNSENT = { origin_services: [], origin_transactions: [], origin_traces: [], origin_bytes: [] };
const asEvent = (row: CentreRow) => eventOf({ ...UNSENT, ...row, trace: row.trace_id!, span: row.span_id! });

const isWaited = (row: CentreRow): CentreRow => {
  return { ...row, has_waited: BigInt(String(row.written_back_count)) < BigInt(String(row.n)) ? 1 : 0 };
};

const WORDS = ['shop', 'pay', '', '*', '\u{10ffff}', '\uffee', 'größe', `${'x'.repeat(1023)}y`, 'a\0b'];

/** Owners that share transactions and traces in every way, so that few traces are one transaction. */
function mixedRows(count: number): Row[] {
  const random = randomNumbers(7);
  const below = (end: number) => Math.floor(random() * end);
  const owner = () => ({
    service: WORDS[below(WORDS.length)]!,
    ...(below(3) > 0 && { transaction: `order-${below(40)}` }),
    ...(below(3) > 0 && { trace: (below(60) + 1).toString(16).padStart(32, 'a') }),
  });
  return Array.from({ length: count }, (_, i): Row => {
    const at = START + BigInt(i) * 20_000_000n - BigInt(below(1e9));
    const common = { at, duration: BigInt(below(2 ** 40)), result: BigInt(below(1000) - 100), ...owner() };
    if (below(2) === 0) return { ...common, file: `/${WORDS[below(WORDS.length)]}/${below(300)}`, fileKind: 'socket' };
    const origins = Array.from({ length: below(5) }, () => ({ ...owner(), bytes: BigInt(1 + below(2 ** 31)) }));
    return { ...common, type: 'block_io', source: below(2) ? 'origin' : 'marker', origins };
  });
}

describe('the blocks of a recording', () => {
  test.each([
    ['some services and transactions', loadRows(6_000)],
    ['owners that share what they are looked up by', mixedRows(6_000)],
    ['the ends of ranges', [{ at: 0n }, { at: 2n ** 63n - 1n, duration: 2n ** 63n - 1n, transaction: 'last' }]],
  ] as [string, Row[]][])('have the events and sums of %s', async (_, rows) => {
    const events = eventsOf(rows);
    const tables = await tablesOf(recorded(rows), 4_096);
    const found = tables.get('event')!;
    expectSame(
      new Map(found.map((row) => [Number(row.number), textOf(asEvent(row))])),
      new Map(events.map((event) => [event.number, textOf(event)])),
    );
    const owners = events.map((event) => {
      const services = servicesOf(event);
      return services.length > 1 ? '*' : (services[0] ?? '');
    });
    expect(found.map(({ owner }) => owner)).toEqual(owners);
    const byId = (tables.get('by_id') ?? []).map(isWaited);
    const ofKind = (kind: number) => summariesIn(byId.filter((row) => row.kind === kind));
    expect(ofKind(1)).toEqual(summariesOf(events, 'transaction'));
    expect(ofKind(2)).toEqual(summariesOf(events, 'trace'));
    const transactions = (tables.get('transaction') ?? []).map(isWaited);
    expect(summariesIn(transactions.filter(({ service }) => service === ''))).toEqual(
      summariesOf(events, 'transaction'),
    );
    expect(statsIn(tables.get('stat')!)).toEqual(statsOf(events));
    const names = tables.get('name')!.filter(({ kind }) => kind === 'service');
    expect(new Set(names.map(({ text }) => text))).toEqual(new Set(events.flatMap(servicesOf)));
  });

  test('list the services and owners of a transaction in the order of their texts', async () => {
    const tables = await tablesOf(recorded(mixedRows(4000)), 9_000);
    for (const name of ['services', 'owners']) {
      const lists = tables.get('by_id')!.map((row) => row[name] as string[]);
      expect(lists.some(({ length }) => length > 3)).toBe(true);
      expect(lists).toEqual(lists.map((list) => [...new Set(list)].sort()));
    }
  });
});
