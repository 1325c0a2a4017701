/**
 * The protocol by which another process asks the agent to change pins. The process connects to the socket in the data
 * folder, sends one request as a line of JSON, and receives one answer; then the connection ends. The daemon uses it if
 * its user may only read the recording.
 */
import { z } from 'zod';

/** Name of the socket in the data folder, next to the recording. */
export const PIN_SOCKET = 'pins.sock';

/** Maximum length of a request. Valid requests are far shorter. */
export const PIN_REQUEST_BYTES_MAX = 65_536;

/** Time that a client waits for the answer. A change may wait for other changes, for a commit and for the disk. */
export const PIN_TIMEOUT_MS = 20_000;

/** Nanoseconds, as text because numbers in JSON are not exact. */
const nanoseconds = z
  .string()
  .regex(/^-?\d{1,19}$/)
  .transform(BigInt);

/** Name of a recording in the data folder, without the folder. */
const file = z
  .string()
  .max(255)
  .regex(/^[^/\0]+\.kreplay$/);

const transactionId = z.string().min(1);

export const pinMessage = z.discriminatedUnion('action', [
  z.strictObject({
    action: z.literal('pin'),
    file,
    transactionId,
    beforeNs: nanoseconds,
    nowNs: nanoseconds,
  }),
  z.strictObject({
    action: z.literal('unpin'),
    file,
    transactionId,
  }),
]);

export type PinMessage = z.output<typeof pinMessage>;

/**
 * The answer to a request. For a pin, `changed` is false if the recording lacks the transaction; for an unpin, if there
 * was no pin.
 */
export const pinAnswer = z.union([
  z.object({ changed: z.boolean() }),
  z.object({ code: z.string(), message: z.string() }),
]);

export type PinAnswer = z.output<typeof pinAnswer>;

export function writePinMessage(message: PinMessage): string {
  return `${JSON.stringify(message, (_key, value) => (typeof value === 'bigint' ? String(value) : value))}\n`;
}
