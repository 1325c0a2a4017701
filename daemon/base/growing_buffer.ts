/** Grows buffers that gather bytes. */

/**
 * Returns a buffer with the first `used` bytes of `buffer` and twice the room that is needed, so that copies are rare.
 */
export function growBuffer(buffer: Buffer, used: number, neededBytes: number): Buffer<ArrayBuffer> {
  const larger = Buffer.allocUnsafeSlow(2 * neededBytes);
  buffer.copy(larger, 0, 0, used);
  return larger;
}
