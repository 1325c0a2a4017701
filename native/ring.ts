import type { NativeObject } from './addon.ts';
import { misuse } from './errors.ts';

/** Bytes in front of a frame's payload: u32 little-endian length of the payload, u32 zero. */
export const FRAME_HEADER_BYTES = 8;

/**
 * Reads a ring buffer in batches: one call copies as many records as the buffer holds, and calls no JavaScript.
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
   * Moves committed records out of the ring into `buffer`, as frames, oldest first; gives the bytes filled. It stops,
   * leaving the rest for the next call, when it meets
   *  - the end of what was in the ring when it began,
   *  - a record that a program has reserved and not yet submitted or discarded,
   *  - a record whose frame does not fit into what is left of the buffer.
   * Discarded records are skipped. Bytes behind the filled ones are left as they were.
   * @throws ERR_RECORD_TOO_LARGE (RangeError): the next record does not fit the whole buffer; it stays in the ring
   * @throws ERR_CLOSED
   */
  drain(buffer: Uint8Array): number {
    if (this.#closed) throw closedError();
    return this.#native.ringDrain(this.#index, buffer);
  }

  /** Bytes between consumer and producer: records not drained yet, with headers, busy and discarded ones too. */
  pendingBytes(): number {
    if (this.#closed) throw closedError();
    return this.#native.ringPending(this.#index);
  }

  /** Unmaps the ring; its records stay in the map. Again, or after the object's close(): nothing. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#native.ringClose(this.#index);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function closedError(): Error {
  return misuse(Error, 'ERR_CLOSED', 'This RingReader is closed');
}
