/** Tests defineRecord: a layout that C would pad is refused, because padding is uninitialized memory. */
import { defineRecord } from '../../../bpf/schema/define.ts';
import { internal, ORIGIN_SLOTS, origins, s32, s64, text, u16, u32, u64 } from '../../../bpf/schema/kinds.ts';

test('fields are laid out consecutively, in the order of their definition', () => {
  const { layout, size, id, name } = defineRecord('sample', 9, 'for the test', {
    type: internal('__u16', ''),
    cpu: u16(''),
    flags: u32(''),
    time: u64(''),
    name: text(16, ''),
    owners: origins(''),
    fd: s32(''),
    other: u32(''),
    result: s64(''),
  });
  expect(layout.map(({ name, offset, size }) => [name, offset, size])).toEqual([
    ['type', 0, 2],
    ['cpu', 2, 2],
    ['flags', 4, 4],
    ['time', 8, 8],
    ['name', 16, 16],
    ['owners', 32, 32 * ORIGIN_SLOTS],
    ['fd', 544, 4],
    ['other', 548, 4],
    ['result', 552, 8],
  ]);
  expect({ id, name, size }).toEqual({ id: 9, name: 'sample', size: 560 });
});

test.each([
  ['a 32-bit field after a 16-bit one', { a: u16(''), b: u32('') }, 'sample.b would leave a hole at offset 2'],
  ['a 64-bit field after a 32-bit one', { a: u32(''), b: u64('') }, 'sample.b would leave a hole at offset 4'],
  ['an owner after a 32-bit field', { a: u32(''), b: origins('') }, 'sample.b would leave a hole at offset 4'],
  ['a number after a short text', { a: text(7, ''), b: u16('') }, 'sample.b would leave a hole at offset 7'],
])('%s is refused', (_, fields, message) => {
  expect(() => defineRecord('sample', 9, '', fields)).toThrow(message);
});

test.each([
  [4, { a: u32('') }],
  [12, { a: u64(''), b: u32('') }],
  [13, { a: u64(''), b: text(5, '') }],
])('a record of %p bytes is refused: it is not a multiple of 8', (size, fields) => {
  expect(() => defineRecord('sample', 9, '', fields)).toThrow(`sample is ${size} bytes long, not a multiple of 8`);
});
