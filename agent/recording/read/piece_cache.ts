/**
 * Keeps pieces of sealed segments in memory, decompressed: questions come back to the same few minutes. A piece is kept
 * when it is read for the second time in a while, so that a scan over everything neither fills the cache nor empties it.
 * All readers of a thread share the memory.
 */
import type { SegmentData } from '../codec/decode_segment.ts';
import { PIECES_MAX } from '../format/pieces.ts';

const BYTES_MAX_DEFAULT = 64 * 1024 * 1024;
/** Number of pieces that were read once and are remembered by their key. */
const SEEN_MAX = 8192;
/**
 * Once the memory is full, one piece in so many is kept: where more pieces are in use than there is room for, most of
 * the others would be dropped before they are read again, and fresh memory costs more than reading does.
 */
const KEPT_OF_MANY = 8;

export interface PieceCache {
  get(firstNumber: number, piece: number): SegmentData | undefined;
  add(firstNumber: number, piece: number, data: SegmentData): void;
  close(): void;
}

/** Least recently used first, in the order of insertion. */
const kept = new Map<string, SegmentData>();
const seen = new Set<string>();
let bytes = 0;
let bytesMax = BYTES_MAX_DEFAULT;
let readers = 0;
let isFull = false;
let passed = 0;

/** Sets the most bytes that this thread keeps; to be called before its first question. */
export function limitPieceCache(bytes: number): void {
  bytesMax = bytes;
}

export function openPieceCache(): PieceCache {
  const reader = `${readers++}:`;
  // Numbers are below 2^53, and a key must not be rounded.
  const keyOf = (firstNumber: number, piece: number) => `${reader}${firstNumber}:${piece % PIECES_MAX}`;
  return {
    get(firstNumber, piece) {
      const key = keyOf(firstNumber, piece);
      const data = kept.get(key);
      if (!data) return undefined;
      kept.delete(key);
      kept.set(key, data);
      return data;
    },
    add(firstNumber, piece, data) {
      const key = keyOf(firstNumber, piece);
      if (seen.delete(key)) keep(key, data);
      else see(key);
    },
    close() {
      for (const key of kept.keys()) if (key.startsWith(reader)) drop(key);
      isFull = false;
    },
  };
}

function keep(key: string, data: SegmentData): void {
  if (isFull && ++passed % KEPT_OF_MANY !== 0) return;
  kept.set(key, data);
  bytes += data.bytes;
  for (const oldest of kept.keys()) {
    if (bytes <= bytesMax) return;
    isFull = true;
    drop(oldest);
  }
}

function drop(key: string): void {
  bytes -= kept.get(key)!.bytes;
  kept.delete(key);
}

function see(key: string): void {
  seen.add(key);
  if (seen.size <= SEEN_MAX) return;
  seen.delete(seen.values().next().value!);
}
