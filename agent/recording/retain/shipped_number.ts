/** How far a recording is shipped, as the shipper's position file says: what is not shipped does not grow too old. */
import { readFileSync } from 'node:fs';

/** The file changes with every group that arrives; it need not be read as often. */
const LOOK_EVERY_NS = 10_000_000_000n;

/**
 * Returns a function that gives the number up to which events have arrived: 0 without a file, or with one of another
 * recording or that cannot be read, because then nothing is known to have arrived.
 */
export function shippedNumber(path: string, recordingId: string): (nowNs: bigint) => bigint {
  let readNs: bigint | undefined;
  let number = 0n;
  return (nowNs) => {
    const since = readNs === undefined ? LOOK_EVERY_NS : nowNs - readNs;
    if (since >= 0n && since < LOOK_EVERY_NS) return number;
    readNs = nowNs;
    number = numberIn(path, recordingId);
    return number;
  };
}

function numberIn(path: string, recordingId: string): bigint {
  try {
    const position = JSON.parse(readFileSync(path, 'utf8')) as { recordingId?: unknown; number?: unknown } | null;
    const isOfThis = position?.recordingId === recordingId && Number.isSafeInteger(position.number);
    return isOfThis ? BigInt(Math.max(0, position.number as number)) : 0n;
  } catch {
    return 0n;
  }
}
