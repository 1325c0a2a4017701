/** Tests that the C++ that makes blocks of segments never leaves the memory that it is given, and says what is missing. */
import { buildShipmentPlan } from '../../../agent/ship/rows/shipment_plan.ts';
import { type ColumnArray, createColumnArray } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { type NativeShipment, nativeShipment, type ShipmentPlan } from '../../../bpf/schema/native_shipment.ts';

const REFUSED = 'an argument has a wrong type or size';
const PLAN = buildShipmentPlan({ recordingId: '0123456789abcdef', node: 'host' });
const EVERY = Uint32Array.from(PLAN.events.keys());
const placeOf = (name: string) => COLUMNS.findIndex((column) => column.name === name);

/** Rows of one event type, with zeros in all columns but some. */
function columnsOf(rows: number, values: Record<string, (row: number) => number | bigint> = {}): ColumnArray[] {
  return COLUMNS.map(({ name, storage }) => {
    const array = createColumnArray(storage, rows);
    const find = name === 'event_type' ? () => 1 : values[name];
    if (find) for (let row = 0; row < rows; row++) array[row] = find(row) as never;
    return array;
  });
}

interface Segment {
  columns?: ColumnArray[];
  numbers?: BigUint64Array;
  rows?: number;
  chosen?: Uint32Array;
  output?: Uint8Array;
}

const ROWS = 100;

function add(shipment: NativeShipment, segment: Segment = {}): number | undefined {
  const { rows = ROWS, chosen = EVERY, output = Buffer.alloc(1 << 20) } = segment;
  const { columns = columnsOf(rows), numbers = new BigUint64Array(rows) } = segment;
  return nativeShipment.addSegment(shipment, columns, numbers, rows, 0, chosen, output);
}

const begun = () => nativeShipment.createShipment(PLAN);

describe('a plan', () => {
  const column = PLAN.columns[placeOf('context')]!;
  const withColumn = (name: string, more: Partial<typeof column>) =>
    PLAN.columns.map((own, place) => (place === placeOf(name) ? { ...own, ...more } : own));
  const withEvent = (more: Partial<ShipmentPlan['events'][number]>) => [{ ...PLAN.events[0]!, ...more }];
  test.each([
    ['no columns', { columns: [] }],
    ['a role that is no column', { roles: Uint32Array.from(PLAN.roles, () => 1e6) }],
    ['too few roles', { roles: PLAN.roles.subarray(1) }],
    ['a time of four bytes', { columns: withColumn('timestamp_ns', { width: 4 }) }],
    ['a context that refers to nothing', { columns: withColumn('context', { refers: 0 }) }],
    ['a reference of an unknown kind', { columns: withColumn('context', { refers: 9 }) }],
    ['a name of eight bytes', { columns: withColumn('comm', { width: 8 }) }],
    ['an origin of another type', { origins: PLAN.origins.map((value, i) => (i === 0 ? 255 : value)) }],
    ['half an origin', { origins: PLAN.origins.subarray(2) }],
    ['a device that is a number', { devices: Uint32Array.of(placeOf('pid')) }],
    ['an unknown part', { events: withEvent({ part: 99 }) }],
    ['a part of no column', { events: withEvent({ part: 4, column: 1e6 }) }],
    ['a path of what is no file', { events: withEvent({ part: 7, column: placeOf('context') }) }],
    ['too few tables', { tables: PLAN.tables.slice(1) }],
    ['tables in another order', { tables: PLAN.tables.toReversed() }],
    ['a table with a column more', { tables: PLAN.tables.map((heads) => [...heads, { name: 'a', type: 'UInt8' }]) }],
    [
      'a table with an unknown type',
      { tables: PLAN.tables.map((heads) => [{ name: 'a', type: 'Float64' }, ...heads]) },
    ],
    ['more types than there are', { typeNames: Array.from({ length: 257 }, String) }],
  ] as [string, Partial<ShipmentPlan>][])('with %s is refused', (_, more) => {
    expect(() => nativeShipment.createShipment({ ...PLAN, ...more })).toThrow(REFUSED);
  });
});

describe('a segment', () => {
  const short = (name: string) =>
    columnsOf(ROWS).map((array, place) => (place === placeOf(name) ? array.subarray(1) : array));
  test.each([
    ['a column that is too short', { columns: short('duration_ns') }],
    ['a column of its type that is too short', { columns: short('sys_write.fd') }],
    ['too few types', { columns: short('event_type') }],
    ['too few columns', { columns: columnsOf(ROWS).slice(1) }],
    ['columns of other widths', { columns: columnsOf(ROWS).toReversed() }],
    ['too few numbers', { numbers: new BigUint64Array(ROWS - 1) }],
    ['numbers of another width', { numbers: new Uint32Array(ROWS) as never }],
    ['a column that is not in the plan', { chosen: Uint32Array.of(EVERY.length) }],
    ['too many rows', { rows: 2 ** 20 + 1, columns: columnsOf(1), numbers: new BigUint64Array(1) }],
  ] as [string, Segment][])('with %s is refused', (_, segment) => {
    expect(() => add(begun(), segment)).toThrow(REFUSED);
  });

  test('without rows is a block without rows, and none of another table', () => {
    const shipment = begun();
    expect(add(shipment, { rows: 0 })).toBeGreaterThan(0);
    expect(PLAN.tables.map((_, table) => nativeShipment.tableBlocks(shipment, table).length)).toEqual([0, 0, 0, 0]);
  });

  test('says which ids are missing, and adds nothing before they are there', () => {
    const shipment = begun();
    const columns = columnsOf(ROWS, {
      comm: (row) => 5 + (row % 2),
      context: (row) => (row % 3 ? 2 ** 32 - 1 : 0),
      'sys_write.file': () => 9,
    });
    expect(add(shipment, { columns })).toBeUndefined();
    const missing = nativeShipment.missingIds(shipment).map((ids) => [...new Set(ids)]);
    expect(missing).toEqual([[5, 6], [9], [2 ** 32 - 1]]);
    expect(nativeShipment.tableBlocks(shipment, 2).length).toBe(0);
    nativeShipment.addName(shipment, 5, 'a');
    nativeShipment.addName(shipment, 6, 'b'.repeat(5000));
    nativeShipment.addFile(shipment, 9, '/c', 'regular');
    expect(add(shipment, { columns })).toBeUndefined();
    const [trace, span] = [Buffer.alloc(16, 1), Buffer.alloc(8, 2)];
    nativeShipment.addContext(shipment, 2 ** 32 - 1, 'order', 7, '01'.repeat(16), trace, span);
    expect(add(shipment, { columns })).toBeGreaterThan(5000 + 100 * ROWS);
    expect(nativeShipment.tableBlocks(shipment, 0).includes('order')).toBe(true);
  });

  test.each([
    ['a trace that is too long', 17, 8],
    ['a span that is too long', 16, 9],
  ])('refuses %s', (_, trace, span) => {
    expect(() => nativeShipment.addContext(begun(), 1, null, 0, '', Buffer.alloc(trace), Buffer.alloc(span))).toThrow(
      REFUSED,
    );
  });

  test.each([
    ['one text', 1, 1],
    ['texts for two bytes each', 300, 2],
    ['texts for four bytes each', 66_000, 4],
  ])('with %s fits into exactly the memory that it needs', (_, names, width) => {
    const shipment = begun();
    for (let id = 1; id <= names; id++) nativeShipment.addName(shipment, id, `name ${id}`);
    const columns = columnsOf(names, { comm: (row) => row + 1 });
    const chosen = Uint32Array.of(PLAN.events.findIndex(({ name }) => name === 'comm'));
    const whole = Buffer.alloc(2 * names * (16 + width) + 1000);
    const size = add(shipment, { rows: names, columns, chosen, output: whole })!;
    expect(whole.readUIntLE(size - width, width)).toBe(names);
    // What JavaScript does not give must not be written: sanitizers watch what lies behind it.
    for (const length of [0, 1, size >> 1, size - 1])
      expect(add(begunWith(names), { rows: names, columns, chosen, output: Buffer.alloc(length) })).toBe(0);
    const exact = Buffer.alloc(size);
    expect(add(begunWith(names), { rows: names, columns, chosen, output: exact })).toBe(size);
    expect(exact.equals(whole.subarray(0, size))).toBe(true);
  });

  function begunWith(names: number): NativeShipment {
    const shipment = begun();
    for (let id = 1; id <= names; id++) nativeShipment.addName(shipment, id, `name ${id}`);
    return shipment;
  }

  test('of random values has a block, as far as its ids are known', () => {
    let state = 1;
    const random = () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return state;
    };
    const shipment = begun();
    for (let tries = 0; tries < 30; tries++) {
      const columns = columnsOf(ROWS).map((array, place) => {
        const bytes = new Uint8Array(array.buffer);
        const isId = PLAN.columns[place]!.refers !== 0;
        if (isId) for (let i = 0; i < array.length; i++) array[i] = (random() % 50) as never;
        else for (let i = 0; i < bytes.length; i++) bytes[i] = random() >>> 24;
        return array;
      });
      // Only types that have rows are checked for their own columns, which all have as many values as there are rows.
      if (add(shipment, { columns }) === undefined) {
        const [names, files, contexts] = nativeShipment.missingIds(shipment);
        for (const id of names) nativeShipment.addName(shipment, id, `n${id % 7}`);
        for (const id of files) nativeShipment.addFile(shipment, id, `/f${id % 5}`, 'regular');
        for (const id of contexts) addContext(shipment, id);
      }
      expect(add(shipment, { columns })).toBeGreaterThan(0);
    }
    expect(nativeShipment.tableBlocks(shipment, 1).length).toBeGreaterThan(0);
    nativeShipment.beginGroup(shipment);
    expect(nativeShipment.tableBlocks(shipment, 1).length).toBe(0);
  });

  function addContext(shipment: NativeShipment, id: number): void {
    const transaction = id % 3 === 0 ? null : `order-${id % 11}`;
    const trace = id % 4 === 0 ? null : (id % 9).toString(16).padStart(32, '0');
    const bytes = Buffer.from(trace ?? '', 'hex');
    nativeShipment.addContext(shipment, id, transaction, id, trace, bytes, Buffer.alloc(0));
  }
});
