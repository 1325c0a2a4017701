/** Reads bytes that arrive in chunks of any size. Only the chunks that the current value needs are kept in memory. */
import { NativeError } from './errors.ts';

/** Number of last bytes that are kept. A server's error message at the end fits into them. */
const TAIL_BYTES = 8192;
/** Maximum number of bytes that are read after malformed bytes, in search of the server's error message. */
const READ_ON_BYTES_MAX = 1024 * 1024;

/** Reads values from chunks. Unread bytes start at `at` in `buffer`. Loops may read them directly and advance `at`. */
export class ByteReader {
  buffer: Buffer = Buffer.alloc(0);
  at = 0;
  readonly #chunks: AsyncIterator<Uint8Array>;
  #allowed = Number.POSITIVE_INFINITY;
  /** Number of bytes that may still arrive in total. */
  #left: number;
  /** The chunks that contain the last TAIL_BYTES. */
  readonly #last: Buffer[] = [];

  /** `bytesMax` limits the total number of bytes; the last chunk may exceed the limit. */
  constructor(chunks: AsyncIterable<Uint8Array>, bytesMax = Number.POSITIVE_INFINITY) {
    this.#chunks = chunks[Symbol.asyncIterator]();
    this.#left = bytesMax;
  }

  /** Limits the bytes that may arrive from now on; the last chunk may exceed the limit. */
  allow(bytes: number): void {
    this.#allowed = bytes;
  }

  async #readChunk(): Promise<Buffer | undefined> {
    if (this.#allowed <= 0) throw new NativeError('a block is too large', 'too_large');
    if (this.#left < 0) throw new NativeError('it is larger than any answer to the question', 'too_large');
    const chunk = await this.#receiveChunk();
    this.#allowed -= chunk?.length ?? 0;
    this.#left -= chunk?.length ?? 0;
    return chunk;
  }

  /** Returns the next chunk; undefined at the end. */
  async #receiveChunk(): Promise<Buffer | undefined> {
    const { done, value } = await this.#chunks.next();
    if (done) return undefined;
    const chunk = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    this.#last.push(chunk);
    while (this.#last.length > 1 && sum(this.#last) - this.#last[0]!.length >= TAIL_BYTES) this.#last.shift();
    return chunk;
  }

  /** Waits until `count` bytes are available; returns false if the end comes first. */
  async has(count: number): Promise<boolean> {
    let available = this.buffer.length - this.at;
    if (available >= count) return true;
    const parts = available > 0 ? [this.buffer.subarray(this.at)] : [];
    let isMore = true;
    while (available < count && isMore) {
      const chunk = await this.#readChunk();
      if (chunk) parts.push(chunk);
      isMore = chunk !== undefined;
      available += chunk?.length ?? 0;
    }
    this.buffer = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    this.at = 0;
    return available >= count;
  }

  async need(count: number): Promise<void> {
    if (this.buffer.length - this.at < count && !(await this.has(count)))
      throw new NativeError('it ends within a block');
  }

  async fill(target: Uint8Array): Promise<void> {
    let done = 0;
    while (done < target.length) {
      await this.need(1);
      const part = this.buffer.subarray(this.at, this.at + target.length - done);
      target.set(part, done);
      done += part.length;
      this.at += part.length;
    }
  }

  async readU64(): Promise<bigint> {
    await this.need(8);
    this.at += 8;
    return this.buffer.readBigUInt64LE(this.at - 8);
  }

  /** Reads a count. Throws a NativeError that names `what` if the count is above `max`. */
  async readCount64(max: number, what: string): Promise<number> {
    const value = await this.readU64();
    if (value > BigInt(max)) throw new NativeError(`${what} is ${value}, above ${max}`);
    return Number(value);
  }

  async readVarint(max: number, what: string): Promise<number> {
    let [value, scale] = [0, 1];
    for (;;) {
      await this.need(1);
      const byte = this.buffer[this.at++]!;
      value += (byte & 0x7f) * scale;
      scale *= 0x80;
      if (value > max || scale > Number.MAX_SAFE_INTEGER) throw new NativeError(`${what} is above ${max}`);
      if (byte < 0x80) return value;
    }
  }

  async readText(bytesMax: number, what: string): Promise<string> {
    const length = await this.readVarint(bytesMax, what);
    await this.need(length);
    this.at += length;
    return this.buffer.toString('utf8', this.at - length, this.at);
  }

  /** Reads on after malformed bytes, and returns the last bytes that arrived. */
  async readTail(): Promise<Buffer> {
    for (let bytes = 0; bytes < READ_ON_BYTES_MAX; ) {
      const chunk = await this.#receiveChunk();
      if (!chunk) break;
      bytes += chunk.length;
    }
    return Buffer.concat(this.#last).subarray(-TAIL_BYTES);
  }

  /** Closes the source of the chunks. */
  async close(): Promise<void> {
    await this.#chunks.return?.();
  }
}

function sum(buffers: readonly Buffer[]): number {
  return buffers.reduce((total, { length }) => total + length, 0);
}
