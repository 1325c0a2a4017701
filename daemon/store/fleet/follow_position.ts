/**
 * The progress of a live tail in the tables of a fleet. Events that are not after `key` were given as far as their
 * segments had arrived before `arrivedS`, by the clock of the server; what arrives later and is not after `key` is late.
 *
 * It is encoded as an id, opaque to clients:
 *
 *   [version u8][checksum 4 bytes][from ns u64][key: timestamp ns u64, recording u64, number u64][arrived s u32]
 */

import { crc32 } from 'node:zlib';
import { U64_MAX } from '../../base/bigints.ts';
import type { RowKey } from './answer_blocks.ts';

export interface Position {
  /** Events that began before this are not requested. */
  readonly fromNs: bigint;
  readonly key: RowKey;
  readonly arrivedS: bigint;
}

/** Positions in recordings have version 1. */
const VERSION = 2;
const [CHECKSUM, FROM, KEY_TIME, KEY_RECORDING, KEY_NUMBER, ARRIVED, END] = [1, 5, 13, 21, 29, 37, 41] as const;

/** Follows every event of this time. */
export function endOfTime(timestampNs: bigint): RowKey {
  return { timestampNs, recording: U64_MAX, number: U64_MAX };
}

export function encodePosition({ fromNs, key, arrivedS }: Position): string {
  const bytes = Buffer.alloc(END);
  bytes.writeUInt8(VERSION);
  bytes.writeBigUInt64BE(fromNs, FROM);
  bytes.writeBigUInt64BE(key.timestampNs, KEY_TIME);
  bytes.writeBigUInt64BE(key.recording, KEY_RECORDING);
  bytes.writeBigUInt64BE(key.number, KEY_NUMBER);
  bytes.writeUInt32BE(Number(arrivedS), ARRIVED);
  bytes.writeUInt32BE(crc32(bytes.subarray(FROM)), CHECKSUM);
  return bytes.toString('base64url');
}

/** Returns undefined if this is not the id of a position. */
export function decodePosition(text: string): Position | undefined {
  const bytes = Buffer.from(text, 'base64url');
  // Buffer.from skips characters that are not base64, so only text that it would produce itself is accepted.
  const isOurs =
    bytes.length === END &&
    bytes.toString('base64url') === text &&
    bytes[0] === VERSION &&
    crc32(bytes.subarray(FROM)) === bytes.readUInt32BE(CHECKSUM);
  if (!isOurs) return undefined;
  return {
    fromNs: bytes.readBigUInt64BE(FROM),
    key: {
      timestampNs: bytes.readBigUInt64BE(KEY_TIME),
      recording: bytes.readBigUInt64BE(KEY_RECORDING),
      number: bytes.readBigUInt64BE(KEY_NUMBER),
    },
    arrivedS: BigInt(bytes.readUInt32BE(ARRIVED)),
  };
}
