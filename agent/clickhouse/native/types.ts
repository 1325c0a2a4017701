/** The column types of ClickHouse that kreplay uses, by their names in SQL and in FORMAT Native. */
import { NativeError } from './errors.ts';

/** Array types for the values of integer columns. They have the same byte order as the wire format, little-endian. */
export const INTEGERS = {
  UInt8: Uint8Array,
  UInt16: Uint16Array,
  UInt32: Uint32Array,
  UInt64: BigUint64Array,
  Int8: Int8Array,
  Int16: Int16Array,
  Int32: Int32Array,
  Int64: BigInt64Array,
  // Seconds since the epoch.
  DateTime: Uint32Array,
} as const;

export type IntegerName = keyof typeof INTEGERS;
export type IntegerArray = InstanceType<(typeof INTEGERS)[IntegerName]>;

type SimpleType =
  | { readonly kind: 'integer'; readonly integer: IntegerName }
  | { readonly kind: 'text' }
  | { readonly kind: 'fixed_text'; readonly bytes: number };

export type NativeType =
  | SimpleType
  | { readonly kind: 'dictionary' }
  | { readonly kind: 'list'; readonly item: SimpleType };

/** Maximum length of a FixedString. The type has no limit of its own; kreplay uses it only for ids. */
const FIXED_BYTES_MAX = 4096;

function isIntegerName(name: string): name is IntegerName {
  return Object.hasOwn(INTEGERS, name);
}

/** Parses the name of a type. Throws a NativeError for a type that kreplay does not use. */
export function parseType(name: string): NativeType {
  const list = /^Array\((.*)\)$/.exec(name);
  const type =
    name === 'LowCardinality(String)' ? ({ kind: 'dictionary' } as const) : parseSimpleType(list?.[1] ?? name);
  if (type === undefined) throw new NativeError(`it has a column of type ${sanitizeName(name)}, which is not expected`);
  return list && type.kind !== 'dictionary' ? { kind: 'list', item: type } : type;
}

/** Makes a name from a server safe to print on a terminal. */
export function sanitizeName(name: string): string {
  return name.slice(0, 80).replace(/[^\w(), '/+-]/g, '?');
}

function parseSimpleType(name: string): SimpleType | undefined {
  // Newer servers may append their time zone to the type.
  const plain = /^DateTime\('[\w/+-]+'\)$/.test(name) ? 'DateTime' : name;
  if (isIntegerName(plain)) return { kind: 'integer', integer: plain };
  if (plain === 'String') return { kind: 'text' };
  const bytes = Number(/^FixedString\(([1-9]\d{0,3})\)$/.exec(plain)?.[1]);
  return bytes <= FIXED_BYTES_MAX ? { kind: 'fixed_text', bytes } : undefined;
}

export function formatTypeName(type: NativeType): string {
  switch (type.kind) {
    case 'integer':
      return type.integer;
    case 'text':
      return 'String';
    case 'fixed_text':
      return `FixedString(${type.bytes})`;
    case 'dictionary':
      return 'LowCardinality(String)';
    case 'list':
      return `Array(${formatTypeName(type.item)})`;
  }
}

/**
 * Version and flags of a LowCardinality column. kreplay uses only dictionaries that are in the block itself, not in an
 * earlier block.
 */
export const DICTIONARY_VERSION = 1;
export const HAS_GLOBAL_DICTIONARY = 1 << 8;
export const HAS_OWN_KEYS = 1 << 9;
export const UPDATES_DICTIONARY = 1 << 10;

/** Array types for the indexes of a dictionary column, in the order of the width codes in its flags. */
export const INDEX_ARRAYS = [Uint8Array, Uint16Array, Uint32Array] as const;
