/** Bytes that are written one after another, in memory that grows. */

const FIRST_BYTES = 64 * 1024;
/** A call into Buffer costs more than so many bytes, one by one. */
const COPIED_BY_HAND = 48;

export class ByteWriter {
  #buffer = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #at = 0;

  #reserve(count: number): void {
    if (this.#at + count <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafeSlow(2 * (this.#at + count));
    this.#buffer.copy(larger, 0, 0, this.#at);
    this.#buffer = larger;
  }

  bytes(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#buffer.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  varint(value: number): void {
    this.#reserve(8);
    while (value >= 0x80) {
      this.#buffer[this.#at++] = (value & 0x7f) | 0x80;
      value = Math.floor(value / 0x80);
    }
    this.#buffer[this.#at++] = value;
  }

  /** Writes a natural number below 2^32 as one of 64 bits. */
  u64(value: number): void {
    this.#reserve(8);
    this.#at = this.#buffer.writeUInt32LE(value, this.#at);
    this.#at = this.#buffer.writeUInt32LE(0, this.#at);
  }

  text(text: string): void {
    const bytes = Buffer.from(text);
    this.lengthAndBytes(bytes, 0, bytes.length);
  }

  lengthAndBytes(source: Buffer, start: number, end: number): void {
    this.varint(end - start);
    this.#reserve(end - start);
    this.#copy(source, start, end);
  }

  /** Writes `size` bytes: those of the source, then zeros. */
  padded(source: Buffer, start: number, end: number, size: number): void {
    this.#reserve(size);
    const after = this.#at + size;
    this.#copy(source, start, end);
    while (this.#at < after) this.#buffer[this.#at++] = 0;
  }

  #copy(source: Buffer, start: number, end: number): void {
    const buffer = this.#buffer;
    let at = this.#at;
    if (end - start <= COPIED_BY_HAND) for (let i = start; i < end; i++) buffer[at++] = source[i]!;
    else at += source.copy(buffer, at, start, end);
    this.#at = at;
  }

  /** Forgets what a failed attempt wrote. */
  clear(): void {
    this.#at = 0;
  }

  /** Returns what was written, and begins again. The next memory is as large as this one turned out. */
  take(): Buffer {
    const written = this.#buffer.subarray(0, this.#at);
    this.#buffer = Buffer.allocUnsafeSlow(Math.max(FIRST_BYTES, this.#at + (this.#at >>> 3)));
    this.#at = 0;
    return written;
  }
}
