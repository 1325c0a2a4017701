import type { NativeObject } from './addon.ts';
import { createMisuseError, runWithBpfErrors } from './errors.ts';

/** Bytes before a frame's payload: u32 little-endian length of the payload, u32 zero. */
export const FRAME_HEADER_BYTES = 8;

export interface WaitOptions {
  timeoutMs?: number | undefined;
  signal?: AbortSignal | undefined;
}

const BATCH_BYTES = 1 << 20;

/**
 * Reads a ring buffer in batches: one call copies as many records as fit into the buffer, and calls no JavaScript.
 *
 *     | u32 length | u32 0 | payload: length bytes | zeros up to a multiple of 8 | u32 length | ...
 *
 * Drain on a timer, and submit with BPF_RB_NO_WAKEUP; or wait with `waitForRecords()` or `batches()`, for programs that
 * submit with wake-ups. A wake-up costs the program that submits 12 to 18 us.
 */
export class RingReader {
  readonly #native: NativeObject;
  readonly #index: number;
  #closed = false;
  #endWait: (() => void) | undefined;
  /** Size of the ring in bytes. */
  readonly sizeBytes: number;

  /** @internal Made by BpfObject.ring() and BpfObject.rings(). */
  constructor(native: NativeObject, index: number, sizeBytes: number) {
    this.#native = native;
    this.#index = index;
    this.sizeBytes = sizeBytes;
  }

  /**
   * Moves committed records from the ring into `buffer` from offset `start`, as frames, oldest first; returns the
   * number of bytes filled. So one buffer can take the records of several rings. Leaves the rest for the next call if it reaches
   *  - the end of the records that were in the ring when the call started,
   *  - a record that a program has reserved and not yet submitted or discarded,
   *  - a record whose frame does not fit into the rest of the buffer.
   * Discarded records are skipped. Bytes before `start` and after the filled bytes do not change.
   * @throws ERR_RECORD_TOO_LARGE (RangeError): the next record does not fit the whole buffer; it stays in the ring
   * @throws ERR_OUT_OF_RANGE (RangeError): `start` is behind the end of the buffer
   * @throws ERR_CLOSED
   */
  drain(buffer: Uint8Array, start = 0): number {
    if (this.#closed) throw createClosedError();
    return this.#native.ringDrain(this.#index, buffer, start);
  }

  /**
   * Returns the number of bytes between consumer and producer: all records that are not drained yet, with headers,
   * including busy and discarded records.
   */
  pendingBytes(): number {
    if (this.#closed) throw createClosedError();
    return this.#native.ringPending(this.#index);
  }

  /**
   * Returns the number of bytes that were ever moved out of the ring, by this reader and earlier ones. The sum of this
   * number and `pendingBytes()` is the position behind the newest record: once this number has reached it, that record
   * is drained.
   */
  consumedBytes(): number {
    if (this.#closed) throw createClosedError();
    return this.#native.ringConsumed(this.#index);
  }

  /**
   * Returns the maximum number of pending bytes that `drain` or `pendingBytes` found since the last call of this
   * function. So it also shows peaks between two calls of `pendingBytes`.
   */
  takePeakBytes(): number {
    if (this.#closed) throw createClosedError();
    return this.#native.ringTakePeak(this.#index);
  }

  /**
   * Waits until a program wakes the ring's readers: by a record that it submits without BPF_RB_NO_WAKEUP when all
   * earlier records are drained, or with BPF_RB_FORCE_WAKEUP. Returns at once if the ring already has records.
   * Resolves with false after `timeoutMs`, when `signal` aborts, and when the ring or the object is closed. While it
   * waits, the process stays alive.
   * @throws ERR_RING_WAITING: another call waits; ERR_CLOSED
   */
  async waitForRecords({ timeoutMs, signal }: WaitOptions = {}): Promise<boolean> {
    if (this.#closed) throw createClosedError();
    if (this.#endWait) throw createMisuseError(Error, 'ERR_RING_WAITING', 'Another call waits for this ring');
    if (signal?.aborted) return false;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const end = () => {
      this.#native.ringEndWait(this.#index);
      resolve(false);
    };
    this.#endWait = end;
    const timer = timeoutMs === undefined ? undefined : setTimeout(end, timeoutMs);
    signal?.addEventListener('abort', end);
    try {
      runWithBpfErrors(() => this.#native.ringWait(this.#index, resolve));
      return await promise;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      this.#endWait = undefined;
    }
  }

  /**
   * Gives the records as they arrive, as frames in `buffer`, which the next step fills again. Waits with
   * `waitForRecords()`, so programs must submit with wake-ups. Ends when the ring or the object is closed.
   */
  async *batches(buffer = new Uint8Array(BATCH_BYTES)): AsyncGenerator<Uint8Array, void> {
    try {
      while (!this.#closed) {
        const filled = this.drain(buffer);
        if (filled > 0) yield buffer.subarray(0, filled);
        // A program is still writing the first record: the ring counts as readable.
        else if (this.pendingBytes() > 0) await new Promise((resolve) => setTimeout(resolve, 1));
        else if (!(await this.waitForRecords())) return;
      }
    } catch (error) {
      if ((error as { code?: string }).code !== 'ERR_CLOSED') throw error;
    }
  }

  /** Unmaps the ring; its records stay in the map. Has no effect if the ring or the object is already closed. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#endWait?.();
    this.#native.ringClose(this.#index);
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function createClosedError(): Error {
  return createMisuseError(Error, 'ERR_CLOSED', 'This RingReader is closed');
}
