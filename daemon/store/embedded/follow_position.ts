/**
 * The position of a live tail in recordings. It is the complete state of the tail, so any daemon can continue the tail
 * at any time. An event was given to the client if its number is below its recording's `number` and its key is not
 * after `key`:
 *
 *   key  ^            | not yet: they wait for their turn
 *        |............+------------------ key
 *        |   given    | late: recorded after `key` had passed their time
 *        +------------+-------------------> number
 *
 * The position is encoded as an id, opaque to clients:
 *
 *   [version u8][checksum 4 bytes][from ns u64][key: timestamp ns u64, recording id 8 bytes, number u64]
 *   for each recording: [recording id 8 bytes][number u64][loss id u32]
 */

import { crc32 } from 'node:zlib';
import { U64_MAX } from '../../base/bigints.ts';
import { formatEventId, parseEventId } from '../../base/event_id.ts';
import type { EventKey } from '../blocks/scanned_block.ts';
import type { Extent } from './recordings.ts';

export interface RecordingPosition {
  /** Events with numbers below this number were read. They were given, or they wait until `key` passes them. */
  number: number;
  /**
   * Approximate exclusive end of the given events. An event that retention removes is a loss of this tail if its number
   * is at least `given`.
   */
  given: number;
  /**
   * Events with numbers below `number` began before `beforeNs`, so all of them have been given when `key` passes
   * `beforeNs`.
   */
  waiting?: { number: number; beforeNs: bigint };
  /** Id of the last reported loss record. */
  lossId: number;
}

export interface RecordingsPosition {
  /** Earliest start of the requested events. */
  readonly fromNs: bigint;
  readonly key: EventKey;
  /** Position in each recording, by recording id. */
  readonly places: ReadonlyMap<string, RecordingPosition>;
}

/** An event id that sorts after every event of the same time. */
const LAST_ID = `${'f'.repeat(16)}-${'f'.repeat(16)}`;

export function endOfTime(timestampNs: bigint): EventKey {
  return { timestamp_ns: timestampNs, event_id: LAST_ID };
}

export function isAfter(a: EventKey, b: EventKey): boolean {
  return a.timestamp_ns === b.timestamp_ns ? a.event_id > b.event_id : a.timestamp_ns > b.timestamp_ns;
}

/** The latest time that a recording can contain. */
const LAST_NS = U64_MAX;

/**
 * Returns the position of a new tail. The tail starts with events recorded from now on, or with events that began at
 * `since` or later; `since` may be before the epoch.
 */
export function buildStartPosition(
  extents: readonly Extent[],
  horizonNs: bigint,
  since: bigint | undefined,
): RecordingsPosition {
  const fromNs = since === undefined ? undefined : since < 0n ? 0n : since > LAST_NS ? LAST_NS : since;
  const places = extents.map(({ recordingId, end, lossId }) => [
    recordingId,
    { number: end, given: fromNs === undefined ? end : 0, lossId },
  ]);
  const key = endOfTime(fromNs === undefined ? horizonNs : fromNs > 0n ? fromNs - 1n : 0n);
  return { fromNs: fromNs ?? 0n, key, places: new Map(places as [string, RecordingPosition][]) };
}

const VERSION = 1;
const [CHECKSUM, FROM, KEY_TIME, KEY_RECORDING, KEY_NUMBER, PLACES] = [1, 5, 13, 21, 29, 37] as const;
const PLACE_BYTES = 20;

/** Encodes a position as its id. */
export function encodePosition({ fromNs, key, places }: RecordingsPosition): string {
  const bytes = Buffer.alloc(PLACES + places.size * PLACE_BYTES);
  bytes.writeUInt8(VERSION);
  bytes.writeBigUInt64BE(fromNs, FROM);
  bytes.writeBigUInt64BE(key.timestamp_ns, KEY_TIME);
  const { recordingId, number } = parseEventId(key.event_id)!;
  bytes.write(recordingId, KEY_RECORDING, 'hex');
  bytes.writeBigUInt64BE(number, KEY_NUMBER);
  let at: number = PLACES;
  for (const [id, place] of places) {
    bytes.write(id, at, 'hex');
    bytes.writeBigUInt64BE(BigInt(place.number), at + 8);
    bytes.writeUInt32BE(place.lossId, at + 16);
    at += PLACE_BYTES;
  }
  bytes.writeUInt32BE(computeChecksum(bytes), CHECKSUM);
  return bytes.toString('base64url');
}

/** Decodes an id; returns undefined if the text is not the id of a position. */
export function decodePosition(text: string): RecordingsPosition | undefined {
  const bytes = Buffer.from(text, 'base64url');
  // Buffer.from skips invalid characters, so the text is accepted only if encoding the bytes returns the same text.
  const ours =
    bytes.length >= PLACES &&
    (bytes.length - PLACES) % PLACE_BYTES === 0 &&
    bytes.toString('base64url') === text &&
    bytes[0] === VERSION &&
    computeChecksum(bytes) === bytes.readUInt32BE(CHECKSUM);
  if (!ours) return undefined;
  const recordingOfKey = bytes.toString('hex', KEY_RECORDING, KEY_NUMBER);
  const numberOfKey = bytes.readBigUInt64BE(KEY_NUMBER);
  const places = new Map<string, RecordingPosition>();
  for (let at: number = PLACES; at < bytes.length; at += PLACE_BYTES) {
    const id = bytes.toString('hex', at, at + 8);
    const number = Number(bytes.readBigUInt64BE(at + 8));
    const given = id === recordingOfKey ? Math.min(number, Number(numberOfKey) + 1) : number;
    places.set(id, { number, given, lossId: bytes.readUInt32BE(at + 16) });
  }
  const key = {
    timestamp_ns: bytes.readBigUInt64BE(KEY_TIME),
    event_id: formatEventId(recordingOfKey, numberOfKey),
  };
  return { fromNs: bytes.readBigUInt64BE(FROM), key, places };
}

/**
 * Computes a checksum against accidental damage. Forgery does no harm, because an id only determines where a tail
 * continues.
 */
function computeChecksum(bytes: Buffer): number {
  return crc32(bytes.subarray(FROM));
}
