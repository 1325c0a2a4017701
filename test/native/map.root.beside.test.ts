/* Tests BpfMap: bytes in and bytes out, of exactly the map's sizes. */
import { type BpfMap, BpfObject, possibleCpus } from 'libbpf-ts';
import { compileBpf, thrownBy, u32, u64 } from './compile.ts';

let file: string;
let object: BpfObject;
let table: BpfMap;
let counts: BpfMap;

beforeAll(() => {
  file = compileBpf('hooks');
});

beforeEach(() => {
  object = BpfObject.open(file);
  object.load();
  table = object.map('table');
  counts = object.map('counts');
});

afterEach(() => object.close());

test('a value that was set is returned, replaced and deleted', () => {
  expect(table.get(u32(1))).toBeUndefined();
  table.set(u32(1), u64(10n));
  expect(table.get(u32(1))).toEqual(u64(10n));
  table.set(u32(1), u64(11n));
  expect(table.get(u32(1))).toEqual(u64(11n));
  expect(table.delete(u32(1))).toBe(true);
  expect(table.delete(u32(1))).toBe(false);
  expect(table.get(u32(1))).toBeUndefined();
});

test('get fills the given array', () => {
  table.set(u32(1), u64(10n));
  const into = new Uint8Array(8);
  expect(table.get(u32(1), into)).toBe(into);
  expect(into).toEqual(u64(10n));
  into.fill(0xaa);
  expect(table.get(u32(2), into)).toBeUndefined();
  expect(into).toEqual(new Uint8Array(8).fill(0xaa));
});

test('flags determine whether the key must exist', () => {
  expect(thrownBy(() => table.set(u32(1), u64(1n), 2))).toMatchObject({ name: 'BpfError', code: 'ENOENT' });
  table.set(u32(1), u64(1n), 1);
  expect(thrownBy(() => table.set(u32(1), u64(1n), 1)).code).toBe('EEXIST');
});

test('a full map refuses a new key', () => {
  for (let key = 0; key < 64; key++) table.set(u32(key), u64(0n));
  expect(thrownBy(() => table.set(u32(64), u64(0n)))).toMatchObject({ code: 'E2BIG', syscall: 'bpf_map_update_elem' });
  expect([...table.keys()].length).toBe(64);
});

test('keys and entries visit everything, and permit deletion during the visit', () => {
  const expected = new Map<number, bigint>();
  for (let key = 0; key < 61; key++) {
    table.set(u32(key), u64(BigInt(key * key)));
    expected.set(key, BigInt(key * key));
  }
  const got = new Map<number, bigint>();
  for (const [key, value] of table) {
    got.set(
      new DataView(key.buffer, key.byteOffset).getUint32(0, true),
      new DataView(value.buffer).getBigUint64(0, true),
    );
  }
  expect(got).toEqual(expected);
  for (const key of table.keys()) expect(table.delete(key)).toBe(true);
  expect([...table.keys()]).toEqual([]);
  expect([...table.entries()]).toEqual([]);
});

test('a per-CPU value has 8 bytes for each possible CPU', () => {
  expect(counts.info.valueSize).toBe(4);
  expect(counts.valueBytes).toBe(8 * possibleCpus());
  expect(counts.get(u32(1))).toEqual(new Uint8Array(8 * possibleCpus()));
  const values = u64(...Array.from({ length: possibleCpus() }, (_, cpu) => BigInt(cpu + 1)));
  counts.set(u32(1), values);
  expect(counts.get(u32(1))).toEqual(values);
  expect(counts.get(u32(2))).toBeUndefined();
  expect(thrownBy(() => counts.get(u32(1), new Uint8Array(4))).code).toBe('ERR_OUT_OF_RANGE');
  expect(thrownBy(() => counts.delete(u32(1))).code).toBe('EINVAL');
  expect([...counts.keys()]).toEqual([u32(0), u32(1)]);
});

test('sizes and types of arguments are checked before the kernel receives them', () => {
  expect(thrownBy(() => table.get(new Uint8Array(3))).code).toBe('ERR_OUT_OF_RANGE');
  expect(thrownBy(() => table.get(u32(1), new Uint8Array(7))).code).toBe('ERR_OUT_OF_RANGE');
  expect(thrownBy(() => table.set(u32(1), new Uint8Array(9))).code).toBe('ERR_OUT_OF_RANGE');
  expect(thrownBy(() => table.delete(new Uint8Array(0))).code).toBe('ERR_OUT_OF_RANGE');
  expect(thrownBy(() => table.get(new Uint32Array(1) as unknown as Uint8Array)).code).toBe('ERR_INVALID_ARG_TYPE');
  expect(thrownBy(() => table.set(u32(1), u64(1n), -1)).code).toBe('ERR_INVALID_ARG_TYPE');
  expect(thrownBy(() => object.map('nothing')).code).toBe('ERR_NOT_FOUND');
});
