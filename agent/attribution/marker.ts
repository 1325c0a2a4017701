/**
 * The marker line:
 *
 *   marker = "KREPLAY1" SP ["proc" SP] (fields / "end") [LF]
 *   field  = key "=" value           key: txn trace span tp svc x-...; value percent-encoded, no space
 */
const MAGIC = 'KREPLAY1';

/** Size of the largest line, LF included, that the kernel side accepts in one write. */
export const MARKER_BYTES_MAX = 1023;

export interface Marker {
  transactionId: string | null;
  traceId: string | null;
  spanId: string | null;
  service: string | null;
  /** Number of fields that were dropped because their value is malformed. */
  badFields: number;
}

/** Ids of W3C Trace Context (3.2.2.3 and 3.2.2.4): lower-case hex, not all zero. */
const traceIdPattern = /^(?!0+$)[0-9a-f]{32}$/;
const spanIdPattern = /^(?!0+$)[0-9a-f]{16}$/;
/** The `traceparent` of W3C Trace Context (3.2.2.1), which forbids the version ff. */
const traceParentPattern = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/;

export function isTraceId(text: string): boolean {
  return traceIdPattern.test(text);
}

/** Rejects `.` and `..`: browsers and proxies remove them from an address, so no request could name the transaction. */
export function isTransactionId(text: string): boolean {
  return text !== '.' && text !== '..';
}

/** Parses a W3C `traceparent`; returns undefined if it is malformed. */
export function parseTraceParent(value: string): { traceId: string; spanId: string } | undefined {
  const [, traceId, spanId] = traceParentPattern.exec(value) ?? [];
  return isTraceId(traceId ?? '') && spanIdPattern.test(spanId ?? '')
    ? { traceId: traceId!, spanId: spanId! }
    : undefined;
}

/**
 * Parses a line; returns null if it is no marker. If a key is repeated, its last value counts; unknown keys are
 * ignored.
 */
export function parseMarker(line: string): Marker | null {
  const marker: Marker = { transactionId: null, traceId: null, spanId: null, service: null, badFields: 0 };
  const words = line.replace(/\n$/, '').split(' ');
  if (words[0] !== MAGIC) return null;
  for (const field of words.slice(words[1] === 'proc' ? 2 : 1)) applyField(marker, field);
  return marker;
}

function applyField(marker: Marker, field: string): void {
  const separator = field.indexOf('=');
  const key = field.slice(0, separator);
  const value = separator > 0 ? decodeValue(field.slice(separator + 1)) : null;
  if (!value) {
    marker.badFields++;
  } else if (key === 'txn') {
    if (isTransactionId(value)) marker.transactionId = value;
    else marker.badFields++;
  } else if (key === 'svc') {
    marker.service = value;
  } else if (key === 'trace') {
    if (isTraceId(value)) marker.traceId = value;
    else marker.badFields++;
  } else if (key === 'span') {
    if (spanIdPattern.test(value)) marker.spanId = value;
    else marker.badFields++;
  } else if (key === 'tp') {
    const parent = parseTraceParent(value);
    if (parent) Object.assign(marker, parent);
    else marker.badFields++;
  }
}

/** Matches the usual value, which has no forbidden and no percent-encoded characters. */
const PLAIN = /^[\x21-\x24\x26-\x7e]*$/;

/** The grammar forbids control characters and space in a value. */
const FORBIDDEN = /[^\u0021-\u007e\u0080-\u{10ffff}]/u;

function decodeValue(value: string): string | null {
  if (PLAIN.test(value)) return value;
  if (FORBIDDEN.test(value)) return null;
  try {
    return decodeURIComponent(value);
  } catch {
    return null;
  }
}

export interface MarkerFields {
  transactionId?: string | undefined;
  traceId?: string | undefined;
  service?: string | undefined;
}

/** Returns the line, LF included, that sets `fields`. Throws RangeError if the line is too long or an id is invalid. */
export function formatMarker(fields: MarkerFields): string {
  const words = [MAGIC];
  if (fields.transactionId !== undefined && !isTransactionId(fields.transactionId))
    throw new RangeError(`no transaction can be named ${fields.transactionId}: no address could have it`);
  if (fields.transactionId !== undefined) words.push(`txn=${encodeValue(fields.transactionId)}`);
  if (fields.traceId !== undefined) words.push(`trace=${fields.traceId}`);
  if (fields.service !== undefined) words.push(`svc=${encodeValue(fields.service)}`);
  const line = `${words.join(' ')}\n`;
  const size = Buffer.byteLength(line);
  if (size > MARKER_BYTES_MAX) {
    throw new RangeError(`the marker line is ${size} bytes long, at most ${MARKER_BYTES_MAX} fit; shorten the ids`);
  }
  return line;
}

/** Escapes the characters that the grammar forbids, and the percent sign. */
function encodeValue(value: string): string {
  return value.replace(/[^\u0021-\u0024\u0026-\u007e\u0080-\u{10ffff}]/gu, encodeURIComponent);
}
