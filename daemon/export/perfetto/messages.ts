/** Writes protocol buffer messages field by field into one buffer: https://protobuf.dev/programming-guides/encoding */
import { growBuffer } from '../../base/growing_buffer.ts';

const VARINT = 0;
const FIXED64 = 1;
const LENGTH_DELIMITED = 2;

const INITIAL_BYTES = 64 * 1024;
/** Upper bound for the size of a tag and a scalar in bytes; the longest varint has ten bytes. */
const SCALAR_BYTES_MAX = 16;

export interface MessageWriter {
  /** Writes an unsigned integer, or a signed integer of the protobuf type int32 or int64. */
  writeInteger(field: number, value: number | bigint): void;
  writeFixed64(field: number, value: bigint): void;
  writeText(field: number, value: string): void;
  /** Writes a nested message, whose fields `write` writes. */
  writeMessage(field: number, write: () => void): void;
  /** Returns the bytes written since the last call. */
  take(): Buffer;
}

export function createMessageWriter(): MessageWriter {
  let buffer = Buffer.alloc(INITIAL_BYTES);
  let end = 0;

  function reserve(bytes: number): void {
    if (end + bytes <= buffer.length) return;
    buffer = growBuffer(buffer, end, end + bytes);
  }

  /**
   * Writes a varint. The 64-bit value is passed as two 32-bit words, because bigint arithmetic would allocate memory
   * for every byte.
   */
  function writeVarint(low: number, high: number): void {
    while (high !== 0 || low > 0x7f) {
      buffer[end++] = (low & 0x7f) | 0x80;
      low = ((low >>> 7) | (high << 25)) >>> 0;
      high >>>= 7;
    }
    buffer[end++] = low;
  }

  function writeTag(field: number, wireType: number): void {
    writeVarint((field << 3) | wireType, 0);
  }

  function writeInt64(value: number | bigint): void {
    const whole = BigInt.asUintN(64, BigInt(value));
    writeVarint(Number(whole & 0xffff_ffffn), Number(whole >> 32n));
  }

  return {
    writeInteger(field, value) {
      reserve(SCALAR_BYTES_MAX);
      writeTag(field, VARINT);
      if (typeof value === 'number' && value >= 0 && value <= 0xffff_ffff) writeVarint(value, 0);
      else writeInt64(value);
    },
    writeFixed64(field, value) {
      reserve(SCALAR_BYTES_MAX);
      writeTag(field, FIXED64);
      end = buffer.writeBigUInt64LE(value, end);
    },
    writeText(field, value) {
      const bytes = Buffer.byteLength(value);
      reserve(SCALAR_BYTES_MAX + bytes);
      writeTag(field, LENGTH_DELIMITED);
      writeVarint(bytes, 0);
      end += buffer.write(value, end);
    },
    writeMessage(field, write) {
      reserve(SCALAR_BYTES_MAX);
      writeTag(field, LENGTH_DELIMITED);
      const start = end;
      write();
      // The length goes before the message but is known only now, so the message is moved to make room.
      const length = end - start;
      reserve(SCALAR_BYTES_MAX);
      end = start;
      const width = Math.max(1, Math.ceil((32 - Math.clz32(length)) / 7));
      buffer.copyWithin(start + width, start, start + length);
      writeVarint(length, 0);
      end += length;
    },
    take() {
      const taken = Buffer.from(buffer.subarray(0, end));
      end = 0;
      return taken;
    },
  };
}
