import type { NativeObject } from './addon.ts';
import { createMisuseError } from './errors.ts';

/** Bytes before a frame's payload: u32 little-endian length of the payload, u32 zero. */
export const FRAME_HEADER_BYTES = 8;

/**
 * Reads a ring buffer in batches: one call copies as many records as fit into the buffer, and calls no JavaScript.
 *
 *     | u32 length | u32 0 | payload: length bytes | zeros up to a multiple of 8 | u32 length | ...
 *
 * There is no wake-up: drain on a timer, and submit with BPF_RB_NO_WAKEUP.
 */
export class RingReader {
  readonly #native: NativeObject;
  readonly #index: number;
  #closed = false;
  /** Size of the ring. */
  readonly sizeBytes: number;

  /** @internal Made by BpfObject.ring(). */
  constructor(native: NativeObject, index: number, sizeBytes: number) {
    this.#native = native;
    this.#index = index;
    this.sizeBytes = sizeBytes;
  }

  /**
   * Moves committed records from the ring into `buffer`, as frames, oldest first; returns the number of bytes filled.
   * It stops, and leaves the rest for the next call, at
   *  - the end of the records that were in the ring when it started,
   *  - a record that a program has reserved and not yet submitted or discarded,
   *  - a record whose frame does not fit into the rest of the buffer.
   * It skips discarded records. Bytes after the filled ones do not change.
   * @throws ERR_RECORD_TOO_LARGE (RangeError): the next record does not fit the whole buffer; it stays in the ring
   * @throws ERR_CLOSED
   */
  drain(buffer: Uint8Array): number {
    if (this.#closed) throw createClosedError();
    return this.#native.ringDrain(this.#index, buffer);
  }

  /**
   * Bytes between consumer and producer: all records not drained yet, with headers, including busy and discarded ones.
   */
  pendingBytes(): number {
    if (this.#closed) throw createClosedError();
    return this.#native.ringPending(this.#index);
  }

  /**
   * The most bytes that `drain` or `pendingBytes` found pending since the last call of this function: what comes and
   * goes between two looks at `pendingBytes`, too.
   */
  takePeakBytes(): number {
    if (this.#closed) throw createClosedError();
    return this.#native.ringTakePeak(this.#index);
  }

  /** Unmaps the ring; its records stay in the map. A further call, or one after the object's close(), has no effect. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#native.ringClose(this.#index);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function createClosedError(): Error {
  return createMisuseError(Error, 'ERR_CLOSED', 'This RingReader is closed');
}
