/** Decodes attributes in OpenTelemetry's protobuf format: opentelemetry/proto/common/v1/common.proto. */
import { type MessageFields, type ProtobufValue, readMessage, readString } from './protobuf.ts';

/**
 * Null: the attribute has no value, or a value that is not used here: bytes, a list of keys and values, or a text that
 * is too long.
 */
export type AttributeValue = string | boolean | bigint | number | null | readonly AttributeValue[];
export type Attributes = ReadonlyMap<string, AttributeValue>;

/**
 * Maximum length of a list of attributes and of an array. The key map of threads has no more entries, because its
 * indexes are bytes.
 */
export const VALUES_MAX = 256;
const KEY_BYTES_MAX = 256;
/** Maximum size of a text, as in OpenTelemetry's reference publisher. */
const TEXT_BYTES_MAX = 4096;
const ARRAY_DEPTH_MAX = 4;

const KEY = 1;
const VALUE = 2;
const KEY_VALUE: MessageFields = new Map([
  [KEY, 'bytes'],
  [VALUE, 'bytes'],
]);

/**
 * Adds the attribute in a KeyValue message to `attributes`, unless it exceeds a limit. Returns false if the message is
 * malformed.
 */
export function readAttribute(message: Uint8Array, attributes: Map<string, AttributeValue>): boolean {
  let key: Uint8Array | undefined;
  let value: AttributeValue | undefined;
  const isWell = readMessage(message, KEY_VALUE, (field, content) => {
    if (field === KEY) {
      if (key) return false;
      key = content as Uint8Array;
      return true;
    }
    if (value !== undefined) return false;
    value = readValue(content as Uint8Array, 0);
    return value !== undefined;
  });
  if (!isWell) return false;
  if (!key) return true;
  const name = readString(key);
  if (name === undefined) return false;
  if (name !== '' && key.length <= KEY_BYTES_MAX && (attributes.size < VALUES_MAX || attributes.has(name))) {
    attributes.set(name, value ?? null);
  }
  return true;
}

const STRING = 1;
const BOOL = 2;
const INT = 3;
const DOUBLE = 4;
const ARRAY = 5;
const KEY_VALUES = 6;
const BYTES = 7;
const ANY_VALUE: MessageFields = new Map([
  [STRING, 'bytes'],
  [BOOL, 'varint'],
  [INT, 'varint'],
  [DOUBLE, 'fixed64'],
  [ARRAY, 'bytes'],
  [KEY_VALUES, 'bytes'],
  [BYTES, 'bytes'],
]);

/** Decodes an AnyValue message; its last field is the value. Returns undefined if the message is malformed. */
function readValue(message: Uint8Array, depth: number): AttributeValue | undefined {
  let value: AttributeValue | undefined = null;
  const isWell = readMessage(message, ANY_VALUE, (field, content) => {
    value = readVariant(field, content, depth);
    return value !== undefined;
  });
  return isWell ? value : undefined;
}

function readVariant(field: number, content: ProtobufValue, depth: number): AttributeValue | undefined {
  if (typeof content !== 'object') {
    const value = BigInt.asIntN(64, BigInt(content));
    return field === INT ? value : value !== 0n;
  }
  if (field === STRING) {
    const text = readString(content);
    return text !== undefined && content.length > TEXT_BYTES_MAX ? null : text;
  }
  if (field === ARRAY) return readArray(content, depth + 1);
  return field === DOUBLE ? new DataView(content.buffer, content.byteOffset).getFloat64(0, true) : null;
}

const ELEMENT = 1;
const ARRAY_VALUE: MessageFields = new Map([[ELEMENT, 'bytes']]);

function readArray(message: Uint8Array, depth: number): AttributeValue | undefined {
  if (depth > ARRAY_DEPTH_MAX) return undefined;
  const values: AttributeValue[] = [];
  const isWell = readMessage(message, ARRAY_VALUE, (_, content) => {
    const value = readValue(content as Uint8Array, depth);
    if (value === undefined) return false;
    if (values.length < VALUES_MAX) values.push(value);
    return true;
  });
  return isWell ? values : undefined;
}
