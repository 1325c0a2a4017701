/**
 * Encodes the position at which the next page begins, as a text that is opaque to clients:
 *
 *   [version u8][checksum 4 bytes][fingerprint of the query 8 bytes][now ns i64][timestamp ns u64][event id, UTF-8]
 *
 * `now` is the time of the first page; `from=-15m` is therefore the same window on every page.
 */
import { createHash } from 'node:crypto';
import { parseListItems } from '../base/list_text.ts';
import { Problem } from '../base/problem.ts';
import type { EventKey } from '../store/blocks/scanned_block.ts';
import type { Query } from './query_string.ts';

export interface Cursor {
  key: EventKey;
  nowNs: bigint;
}

const VERSION = 1;
const [CHECKSUM, FINGERPRINT, NOW, TIMESTAMP, EVENT_ID] = [1, 5, 13, 21, 29] as const;

/** Parameters that may differ between pages. */
const CHANGEABLE = ['cursor', 'coverage'];

/** Returns a digest of all parameters that determine which events are returned and how they are paged. */
export function computeFingerprint(query: Query, listNames: readonly string[]): Buffer {
  const parameters = Object.entries(query)
    .filter(([name]) => !CHANGEABLE.includes(name))
    .map(([name, value]) => {
      const values = [value].flat();
      // The digest of a list does not depend on how the list is written.
      return [name, listNames.includes(name) ? values.flatMap(parseListItems).sort() : values] as const;
    })
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return hashBytes(Buffer.from(JSON.stringify(parameters))).subarray(0, NOW - FINGERPRINT);
}

export function encodeCursor({ key, nowNs }: Cursor, queryFingerprint: Buffer): string {
  const head = Buffer.alloc(EVENT_ID);
  head.writeUInt8(VERSION, 0);
  queryFingerprint.copy(head, FINGERPRINT);
  head.writeBigInt64BE(nowNs, NOW);
  head.writeBigUInt64BE(key.timestamp_ns, TIMESTAMP);
  const bytes = Buffer.concat([head, Buffer.from(key.event_id)]);
  computeChecksum(bytes).copy(bytes, CHECKSUM);
  return bytes.toString('base64url');
}

export function decodeCursor(text: string, queryFingerprint: Buffer): Cursor {
  const bytes = Buffer.from(text, 'base64url');
  // Buffer.from skips characters that are not base64, so only text that the encoder would produce is accepted.
  const ours =
    bytes.length > EVENT_ID &&
    bytes.toString('base64url') === text &&
    bytes[0] === VERSION &&
    computeChecksum(bytes).equals(bytes.subarray(CHECKSUM, FINGERPRINT));
  if (!ours) throw createCursorProblem('invalid_cursor', 'this is not a next_cursor of this daemon');
  if (!bytes.subarray(FINGERPRINT, NOW).equals(queryFingerprint))
    throw createCursorProblem(
      'cursor_mismatch',
      'the other parameters must stay as they were when this cursor was given',
    );
  return {
    key: { timestamp_ns: bytes.readBigUInt64BE(TIMESTAMP), event_id: bytes.toString('utf8', EVENT_ID) },
    nowNs: bytes.readBigInt64BE(NOW),
  };
}

function createCursorProblem(code: 'invalid_cursor' | 'cursor_mismatch', message: string): Problem {
  return new Problem(code, `cursor: ${message}`, [{ parameter: 'cursor', message }]);
}

/**
 * Returns a checksum that detects accidental damage. Forgery is harmless, because a cursor only determines where
 * reading continues.
 */
function computeChecksum(bytes: Buffer): Buffer {
  return hashBytes(bytes.subarray(FINGERPRINT)).subarray(0, FINGERPRINT - CHECKSUM);
}

function hashBytes(bytes: Buffer): Buffer {
  return createHash('sha256').update(bytes).digest();
}
