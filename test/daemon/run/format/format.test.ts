/**
 * Tests plan and report as structs: the C header is up to date, a C compiler agrees, and written files read back equal.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { buildCHeader } from '../../../../daemon/run/format/c_header.ts';
import {
  defineLayout,
  readColumn,
  readRecord,
  type StructLayout,
  u8,
  u16,
  u32,
  u64,
  writeColumns,
  writeRecord,
} from '../../../../daemon/run/format/layout.ts';
import { planEvent, planHeader, planSlot, planStream } from '../../../../daemon/run/format/plan_file.ts';
import { reportCall, reportHeader } from '../../../../daemon/run/format/report_file.ts';

const ROOT = join(import.meta.dirname, '../../../..');
const LAYOUTS: readonly StructLayout[] = [planHeader, planStream, planSlot, planEvent, reportHeader, reportCall];
const MAX = { u8: 2 ** 8 - 1, u16: 2 ** 16 - 1, u32: 2 ** 32 - 1 };

test('native/runner/gen/format.h matches the layouts; `make gen` writes it', () => {
  expect(readFileSync(join(ROOT, 'native/runner/gen/format.h'), 'utf8')).toBe(buildCHeader());
});

test.each([
  ['gcc', '-std=c17'],
  ['clang', '-std=c17'],
])('%s lays out every struct as declared', (compiler, standard) => {
  const flags = [standard, '-Wall', '-Wextra', '-Werror', '-fsyntax-only', '-x', 'c', '-'];
  execFileSync(compiler, flags, { input: buildCHeader(), stdio: 'pipe' });
  const shifted = buildCHeader().replace('\tuint64_t target_ns;', '\tuint64_t before;\n\tuint64_t target_ns;');
  expect(() => execFileSync(compiler, flags, { input: shifted, stdio: 'pipe' })).toThrow('plan_event');
});

test('structs have the agreed sizes', () => {
  expect(LAYOUTS.map(({ name, size }) => [name, size])).toEqual([
    ['plan_header', 80],
    ['plan_stream', 32],
    ['plan_slot', 16],
    ['plan_event', 24],
    ['report_header', 32],
    ['report_call', 64],
  ]);
});

test('a struct that a compiler would pad is refused', () => {
  expect(() => defineLayout('x', '', { a: u8(''), b: u16('') })).toThrow('x.b is not aligned');
  expect(() => defineLayout('x', '', { a: u32('') })).toThrow('multiple of 8');
});

test.each(LAYOUTS.map((layout) => [layout.name, layout] as const))('%s is read back as it was written', (_, layout) => {
  const values = Object.fromEntries(
    Object.entries(layout.fields).map(([name, { width }]) => [
      name,
      width === 'u64' ? fc.bigInt(0n, 2n ** 64n - 1n) : fc.nat(MAX[width as keyof typeof MAX]),
    ]),
  );
  fc.assert(
    fc.property(fc.record(values), fc.nat(16), (record, at) => {
      const view = new DataView(new ArrayBuffer(at + layout.size));
      writeRecord(view, at, layout, record as never);
      expect(readRecord(view, at, layout)).toEqual(record);
    }),
  );
});

test('columns are the same bytes as records', () => {
  const layout = defineLayout('x', '', { a: u64(''), b: u32(''), c: u16(''), d: u8(''), e: u8('') });
  const row = fc.record({
    a: fc.maxSafeNat(),
    b: fc.nat(MAX.u32),
    c: fc.nat(MAX.u16),
    d: fc.nat(MAX.u8),
    e: fc.nat(MAX.u8),
  });
  fc.assert(
    fc.property(fc.array(row), (rows) => {
      const [one, other] = [0, 1].map(() => new DataView(new ArrayBuffer(rows.length * layout.size)));
      const names = Object.keys(layout.fields) as (keyof (typeof rows)[number])[];
      const columns = Object.fromEntries(names.map((name) => [name, rows.map((values) => values[name])]));
      writeColumns(one!, 0, layout, columns as never, rows.length);
      for (const [at, values] of rows.entries())
        writeRecord(other!, at * layout.size, layout, { ...values, a: BigInt(values.a) });
      expect(Buffer.from(one!.buffer)).toEqual(Buffer.from(other!.buffer));
      for (const name of names) expect([...readColumn(one!, 0, layout, name, rows.length)]).toEqual(columns[name]);
    }),
  );
});
