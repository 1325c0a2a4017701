/**
 * Describes a struct of a file: its fields in order, each with a width. Both the TypeScript code that reads and writes
 * the struct and the C header (c_header.ts) are derived from this description.
 */

const WIDTHS = { u8: 1, u16: 2, u32: 4, u64: 8 } as const;

export type Width = keyof typeof WIDTHS;

export interface StructField {
  readonly width: Width;
  readonly doc: string;
}

export type StructFields = Readonly<Record<string, StructField>>;

export interface StructLayout<Declared extends StructFields = StructFields> {
  readonly name: string;
  readonly doc: string;
  readonly fields: Declared;
  /** Size of one struct in bytes. */
  readonly size: number;
  readonly offsets: { readonly [Name in keyof Declared]: number };
}

/** The values of a struct's fields: bigints for 64-bit fields, numbers for the others. */
export type RecordOf<Declared extends StructFields> = {
  [Name in keyof Declared]: Declared[Name]['width'] extends 'u64' ? bigint : number;
};

/** Many structs, stored as one column per field. All values are numbers, so 64-bit values must be below 2^53. */
export type ColumnsOf<Declared extends StructFields> = { [Name in keyof Declared]: ArrayLike<number> };

const field =
  <Name extends Width>(width: Name) =>
  (doc: string) => ({ width, doc });

export const u8 = field('u8');
export const u16 = field('u16');
export const u32 = field('u32');
export const u64 = field('u64');

/**
 * Defines a struct layout into which no C compiler inserts padding: the offset of every field must be a multiple of the
 * field's width, and the size must be a multiple of 8.
 */
export function defineLayout<const Declared extends StructFields>(
  name: string,
  doc: string,
  fields: Declared,
): StructLayout<Declared> {
  let size = 0;
  const offsets: Record<string, number> = {};
  for (const [fieldName, { width }] of Object.entries(fields)) {
    if (size % WIDTHS[width] !== 0) throw new Error(`${name}.${fieldName} is not aligned`);
    offsets[fieldName] = size;
    size += WIDTHS[width];
  }
  if (size % 8 !== 0) throw new Error(`${name} is not a multiple of 8 bytes`);
  return { name, doc, fields, size, offsets: offsets as StructLayout<Declared>['offsets'] };
}

export function writeRecord<Declared extends StructFields>(
  view: DataView,
  at: number,
  layout: StructLayout<Declared>,
  values: RecordOf<Declared>,
): void {
  for (const [name, { width }] of Object.entries(layout.fields)) {
    const place = at + layout.offsets[name]!;
    const value = values[name]!;
    if (width === 'u64') view.setBigUint64(place, BigInt(value), true);
    else writeNumber(view, place, width, Number(value));
  }
}

export function readRecord<Declared extends StructFields>(
  view: DataView,
  at: number,
  layout: StructLayout<Declared>,
): RecordOf<Declared> {
  const entries = Object.entries(layout.fields).map(([name, { width }]) => {
    const place = at + layout.offsets[name]!;
    return [name, width === 'u64' ? view.getBigUint64(place, true) : readNumber(view, place, width)];
  });
  return Object.fromEntries(entries) as RecordOf<Declared>;
}

/** Writes `count` structs one after the other, starting at offset `at`. */
export function writeColumns<Declared extends StructFields>(
  view: DataView,
  at: number,
  layout: StructLayout<Declared>,
  columns: ColumnsOf<Declared>,
  count: number,
): void {
  for (const [name, { width }] of Object.entries(layout.fields)) {
    const column = columns[name]!;
    let place = at + layout.offsets[name]!;
    for (let row = 0; row < count; row++, place += layout.size) writeNumber(view, place, width, column[row]!);
  }
}

/** Reads one field of `count` structs that start at offset `at`. A 64-bit value above 2^53 loses its lowest bits. */
export function readColumn<Declared extends StructFields>(
  view: DataView,
  at: number,
  layout: StructLayout<Declared>,
  name: keyof Declared & string,
  count: number,
): Float64Array {
  const { width } = layout.fields[name]!;
  const column = new Float64Array(count);
  let place = at + layout.offsets[name];
  for (let row = 0; row < count; row++, place += layout.size) column[row] = readNumber(view, place, width);
  return column;
}

const WORD = 2 ** 32;

function writeNumber(view: DataView, at: number, width: Width, value: number): void {
  if (width === 'u64') {
    view.setUint32(at, value % WORD, true);
    view.setUint32(at + 4, Math.floor(value / WORD), true);
  } else if (width === 'u32') view.setUint32(at, value, true);
  else if (width === 'u16') view.setUint16(at, value, true);
  else view.setUint8(at, value);
}

function readNumber(view: DataView, at: number, width: Width): number {
  if (width === 'u64') return view.getUint32(at + 4, true) * WORD + view.getUint32(at, true);
  if (width === 'u32') return view.getUint32(at, true);
  return width === 'u16' ? view.getUint16(at, true) : view.getUint8(at);
}
