/**
 * Tests definitions as objects: numbers up to 2^53 are exact, and texts end at their first NUL or at the end of their
 * field.
 */
import fc from 'fast-check';
import { contextEnd, fileDefinition, programDefinition } from '../../../bpf/schema/definitions.ts';
import { readText, recordReader } from '../../../bpf/schema/record_reader.ts';
import { recordBytes } from './records.ts';

const view = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const u32 = fc.nat(2 ** 32 - 1);
const safe = fc.oneof(fc.constantFrom(0, 2 ** 32, Number.MAX_SAFE_INTEGER), fc.maxSafeNat());

test('a record is read field by field, at any offset', () => {
  fc.assert(
    fc.property(safe, safe, safe, u32, u32, fc.nat(5), (file_id, inode, filesystem, mode, flags, before) => {
      const record = recordBytes(fileDefinition, { file_id, inode, filesystem, mode, flags });
      const buffer = new Uint8Array(before * 8 + record.length).fill(0xee);
      buffer.set(record, before * 8);
      expect(recordReader(fileDefinition)(view(buffer), before * 8)).toEqual({
        definition_type: fileDefinition.id,
        reserved: 0,
        text_size: 0,
        file_id,
        inode,
        filesystem,
        mode,
        flags,
      });
    }),
  );
});

test('a time beyond 2^53 is off by at most a few nanoseconds', () => {
  const time_ns = 2n ** 54n + 1n;
  const { time_ns: read } = recordReader(contextEnd)(view(recordBytes(contextEnd, { time_ns })), 0);
  expect(Math.abs(read - Number(time_ns))).toBeLessThanOrEqual(4);
});

test.each([
  ['', ''],
  ['postgres', 'postgres'],
  ['a\0stale bytes', 'a'],
  ['Größe', 'Größe'],
  ['\uFEFFmark', '\uFEFFmark'],
  ['x'.repeat(64), 'x'.repeat(64)],
  ['x'.repeat(80), 'x'.repeat(64)],
])('the text %p reads as %p', (executable, expected) => {
  const record = recordBytes(programDefinition, { executable });
  expect(recordReader(programDefinition)(view(record), 0).executable).toBe(expected);
});

test('any bytes of a text are read, without those after its end', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 16 }), (name) => {
      const room = new Uint8Array(32).fill(0x61);
      room.fill(0, 0, 16);
      room.set(name);
      const text = readText(view(room), 0, 16);
      expect(text).not.toContain('\0');
      expect(Buffer.from(text).length).toBeLessThanOrEqual(3 * 16);
      expect(text.endsWith('a'.repeat(16))).toBe(false);
    }),
  );
});
