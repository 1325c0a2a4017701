/**
 * Decodes OpenTelemetry's thread context (OTEP 4947), in which a thread publishes its current span and attributes:
 *
 *   0         16       24      25           26          28
 *   trace id  span id  valid   trace flags  bytes of    attributes: key index u8, length u8, UTF-8
 *                      u8: 1   u8           those, u16
 */

export interface ThreadRecord {
  /** Lower-case hex; `traceId` and `spanId` are both null while the thread has no span. */
  traceId: string | null;
  spanId: string | null;
  attributes: ReadonlyMap<string, string>;
  /**
   * Whether an attribute was left out because `keys` has no name for its index. The process context then has new keys
   * and must be read again.
   */
  hasUnknownKey: boolean;
}

/** The attribute that kreplay uses as the transaction id. */
export const TRANSACTION_ATTRIBUTE = 'transaction.id';

const SPAN_AT = 16;
const VALID_AT = 24;
const SIZE_AT = 26;
export const THREAD_RECORD_HEAD_BYTES = 28;

/**
 * Decodes `record`, which may be cut short; `keys` are the `threadKeys` of the process context. Returns undefined if
 * the thread has no record or was changing it.
 */
export function decodeThreadRecord(record: Uint8Array, keys: readonly string[]): ThreadRecord | undefined {
  if (record.length < THREAD_RECORD_HEAD_BYTES || record[VALID_AT] !== 1) return undefined;
  const bytes = Buffer.from(record.buffer, record.byteOffset, record.length);
  const traceId = readHexId(bytes, 0, SPAN_AT);
  const spanId = readHexId(bytes, SPAN_AT, VALID_AT);
  // If one id is missing, the other id is ignored.
  const hasSpan = traceId !== null && spanId !== null;
  const end = THREAD_RECORD_HEAD_BYTES + bytes.readUInt16LE(SIZE_AT);
  return {
    traceId: hasSpan ? traceId : null,
    spanId: hasSpan ? spanId : null,
    ...decodeAttributes(bytes.subarray(THREAD_RECORD_HEAD_BYTES, end), keys),
  };
}

function readHexId(bytes: Buffer, from: number, to: number): string | null {
  const id = bytes.toString('hex', from, to);
  return /[^0]/.test(id) ? id : null;
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Decodes the attributes. Stops at an incomplete attribute. If a key is repeated, the last attribute counts, even if it
 * is unusable.
 */
function decodeAttributes(bytes: Buffer, keys: readonly string[]): Pick<ThreadRecord, 'attributes' | 'hasUnknownKey'> {
  const attributes = new Map<string, string>();
  let hasUnknownKey = false;
  for (let at = 0; at + 2 <= bytes.length; ) {
    const key = keys[bytes[at]!];
    const from = at + 2;
    at = from + bytes[at + 1]!;
    if (at > bytes.length) break;
    if (key === undefined) hasUnknownKey = true;
    else setAttribute(attributes, key, bytes.subarray(from, at));
  }
  return { attributes, hasUnknownKey };
}

function setAttribute(attributes: Map<string, string>, key: string, value: Uint8Array): void {
  try {
    attributes.set(key, decoder.decode(value));
  } catch {
    attributes.delete(key); // The value is not UTF-8, so it is no text.
  }
}
