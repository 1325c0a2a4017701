/** Reads the protocol buffers wire format strictly: https://protobuf.dev/programming-guides/encoding */

export type WireType = 'varint' | 'fixed64' | 'bytes' | 'fixed32';

/** Wire types by number. Types 3 and 4 are groups, which the messages read here never use. */
const WIRE_TYPES: readonly (WireType | undefined)[] = ['varint', 'fixed64', 'bytes', undefined, undefined, 'fixed32'];

/** The fields of a message to read: the wire type of each field number. */
export type MessageFields = ReadonlyMap<number, WireType>;

/** A varint (a bigint if it is long), or the bytes of a field of any other type, as a view of the message. */
export type ProtobufValue = number | bigint | Uint8Array;

/** Maximum size of a varint whose value is exact as a number; each byte has seven bits. */
const NUMBER_BYTES_MAX = 7;
const VARINT_BYTES_MAX = 10;
const U64_LIMIT = 1n << 64n;
/** Upper bound of tags, which are varints of 32 bits. */
const TAG_LIMIT = 2 ** 32;

/**
 * Calls `onField` for each of `fields`, in the order of the message. Returns false if the message is malformed, a field
 * has a wrong type, or `onField` returned false.
 */
export function readMessage(
  message: Uint8Array,
  fields: MessageFields,
  onField: (field: number, value: ProtobufValue) => boolean,
): boolean {
  let at = 0;

  function readVarint(): number | bigint | undefined {
    let value = 0;
    for (let i = 0; i < NUMBER_BYTES_MAX; i++) {
      const byte = message[at++];
      if (byte === undefined) return undefined;
      value += (byte & 0x7f) * 2 ** (7 * i);
      if (byte < 0x80) return value;
    }
    return readLongVarint(BigInt(value));
  }

  function readLongVarint(begun: bigint): bigint | undefined {
    let value = begun;
    for (let i = NUMBER_BYTES_MAX; i < VARINT_BYTES_MAX; i++) {
      const byte = message[at++];
      if (byte === undefined) return undefined;
      value |= BigInt(byte & 0x7f) << BigInt(7 * i);
      if (byte < 0x80) return value < U64_LIMIT ? value : undefined;
    }
    return undefined;
  }

  function readBytes(size: number | bigint | undefined): Uint8Array | undefined {
    if (typeof size !== 'number' || size > message.length - at) return undefined;
    at += size;
    return message.subarray(at - size, at);
  }

  function readFieldValue(type: WireType | undefined): ProtobufValue | undefined {
    if (type === 'varint') return readVarint();
    if (type === 'fixed64') return readBytes(8);
    if (type === 'fixed32') return readBytes(4);
    return type === 'bytes' ? readBytes(readVarint()) : undefined;
  }

  while (at < message.length) {
    const tag = readVarint();
    if (typeof tag !== 'number' || tag >= TAG_LIMIT) return false;
    const field = tag >>> 3;
    const type = WIRE_TYPES[tag & 7];
    const value = field === 0 ? undefined : readFieldValue(type);
    if (value === undefined) return false;
    const asked = fields.get(field);
    if (asked !== undefined && (asked !== type || !onField(field, value))) return false;
  }
  return true;
}

/** Strings of proto3 are always UTF-8. */
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export function readString(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}
