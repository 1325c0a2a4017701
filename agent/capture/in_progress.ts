/**
 * Finds the calls and block requests in progress, which have begun and not ended. `takeSnapshot` runs before a drain of
 * the rings. After the drain, `settle` leaves out the calls and requests of the snapshot that a drained event ends, and
 * passes the others to the writer, resolved like events:
 *
 *   snapshot -> [ a, b, c ]   drain -> b has ended   settle -> [ a, c ]
 *
 * So a call that began before the snapshot is either drained as an event or passed by `settle`, never both.
 */

import { type Block, getColumnLength } from '../../bpf/schema/block.ts';
import { blockIo } from '../../bpf/schema/block_io.ts';
import { COLUMNS } from '../../bpf/schema/columns.ts';
import {
  type Accept,
  createDecoder,
  type DecodedBlock,
  type Decoder,
  FRAME_HEADER_SIZE,
  recordOffset,
} from '../../bpf/schema/decoder.ts';
import { findFirstPlace } from '../../daemon/base/binary_search.ts';
import { CONTEXT_OFFSET, readU64At, TIMESTAMP_OFFSET } from '../attribution/fill.ts';
import { getBlockIoOffset } from '../attribution/fill_origins.ts';
import type { Resolver } from '../attribution/resolve.ts';
import { NONE_UNLISTED } from '../recording/format/in_progress.ts';
import type { UnendedRows } from '../recording/write/batch.ts';
import type { FramesInProgress } from './probes.ts';

/** Maximum number of calls and requests that are passed to the writer: labelled ones first, then the oldest. */
export const LISTED_MAX = 1024;

/** Calls and requests older than this are always counted, even if the filter accepts only longer events. */
const UNLISTED_NS_MIN = 1e9;

/**
 * Minimum age of the calls in a snapshot. A younger call may be missing, because the BPF program at its entry may still
 * be running.
 */
export const YOUNG_NS = 1_000_000;

/**
 * Maximum time that a bio may wait before it is removed and counted as lost. Most likely, the kernel skipped the BPF
 * program that would have removed the bio: by default, a request times out in 30 s, and a device that does not answer
 * for this long is taken out of use.
 */
export const WAIT_MAX_NS = 600e9;

/**
 * Time after the issue of a request during which its bios may still be listed: the BPF program adds the request before
 * it removes the bios.
 */
const ISSUING_NS_MAX = 1e9;

/**
 * Interval at which the names of calls in progress are resolved again, because the recording drops names that only old
 * events use.
 */
export const RENEW_NS = 60e9;

const MARK_MASK = 4095;

const STEP_NS = 1_000_000n;

const TID_OFFSET = recordOffset('tid');
const SECTOR_OFFSET = getBlockIoOffset('sector');
const BYTES_OFFSET = getBlockIoOffset('bytes');
const DURATION_OFFSET = recordOffset('duration_ns');
const QUEUE_OFFSET = getBlockIoOffset('queue_ns');
const DEVICE_OFFSET = getBlockIoOffset('device');
const DEVICE_WORDS = 4;
const SECTOR_BYTES = 512;

export interface InProgress {
  /**
   * Finds the calls and requests in progress; `nowNs` is CLOCK_BOOTTIME. Those younger than `listedNs` are only
   * counted, without names, because the filter may reject them. Returns `found`, the number of calls and requests, and
   * `foundNs`: younger calls and requests are not included.
   */
  takeSnapshot(nowNs: number, listedNs?: number): { found: number; foundNs: number };
  /** Removes the calls and requests whose ends are among the decoded events. */
  forgetEnded(words: Uint32Array, decoded: DecodedBlock): void;
  /**
   * Passes the remaining calls and requests of the last drained snapshot to the writer, if they have changed or
   * RENEW_NS has passed. `isDrained`: whether everything that the rings held at the latest snapshot has been drained.
   * All definitions that the calls and requests refer to must have been read.
   */
  settle(isDrained: boolean): void;
}

export interface InProgressParts {
  /** Reads the calls, bios and requests: see `readInProgress` of `Probes`. */
  read(): FramesInProgress;
  createBlockResolver(decoded: DecodedBlock): Resolver;
  /** Whether a record is to be kept. */
  accept: Accept;
  /** Whether a record belongs to the recorder itself. */
  isOwn: Accept;
  /**
   * Removes the bios that were queued before `beforeNs` (CLOCK_BOOTTIME) and still wait for a request; counts them as
   * lost.
   */
  forgetBios(beforeNs: number): void;
  /** Converts a time of CLOCK_BOOTTIME to wall-clock time. */
  toWallNs(bootNs: number): bigint;
  pass(unended: UnendedRows): void;
}

/** A call or request in a snapshot. */
interface FrameEntry {
  frame: Uint8Array;
  startNs: number;
  tid: number;
  /** Whether the call has a label. Always true for a request, because its data may have any label. */
  isLabelled: boolean;
  request: InProgressRequest | undefined;
}

type RequestEntry = FrameEntry & { request: InProgressRequest };

/** A block request, or a bio, which may have become a part of a request. */
interface InProgressRequest {
  /** Range of sectors: [from, to). */
  from: number;
  to: number;
  /** The first words of the disk's name. */
  device: readonly number[];
  /** Time that the request waited for its device; unknown for a bio. */
  queueNs: number;
  isBio: boolean;
  hasEnded: boolean;
}

type Ended = Pick<RequestEntry, 'request' | 'startNs'> & { endNs: number };

/** A snapshot of the calls and requests in progress, without those that have ended since. */
interface InProgressSnapshot {
  calls: Map<number, FrameEntry>;
  /**
   * Contains 1 at the index formed by the low bits of each call's start time. If there is a 0 at the index of an
   * event's start time, the event ends no call, and `calls` need not be searched.
   */
  marks: Uint8Array;
  /** Requests, sorted by their first sectors. */
  requests: readonly RequestEntry[];
  /** Calls and requests that began after this time are counted but not listed: their names may not be defined yet. */
  listedUntilNs: number;
}

export function createInProgress(options: InProgressParts): InProgress {
  const { read, createBlockResolver, accept, isOwn, forgetBios, toWallNs, pass } = options;
  /** The last drained snapshot: everything that the rings held when it was taken has been drained. */
  let settled: InProgressSnapshot = { calls: new Map(), marks: buildMarks([]), requests: [], listedUntilNs: 0 };
  let latest: InProgressSnapshot | undefined;
  let latestNs = 0;
  /** Whether `settled` is unchanged since the last call of `settle`, as is usual during a flood of events. */
  let isUnchanged = false;
  let passed: Buffer = Buffer.alloc(0);
  let passedNs = 0;
  /** The offset between wall clock and boot clock that was used to resolve `passed`. */
  let passedOffsetNs = 0n;
  let passedUnlisted = 0;
  /** Created at first use, because usually no call or request is in progress for long. */
  let parts: { decoder: Decoder; resolver: Resolver } | undefined;

  function ensureParts(): { decoder: Decoder; resolver: Resolver } {
    if (!parts) {
      const decoder = createDecoder();
      parts = { decoder, resolver: createBlockResolver(decoder.decoded) };
    }
    return parts;
  }

  function decodeFrames(frames: Buffer): DecodedBlock {
    const { decoder, resolver } = ensureParts();
    decoder.decode(frames, 0, frames.length, () => true);
    resolver.resolve(toFrameWords(frames));
    return decoder.decoded;
  }

  return {
    takeSnapshot(nowNs, listedNs = 0) {
      latestNs = nowNs;
      const foundNs = Math.max(YOUNG_NS, Math.min(listedNs, UNLISTED_NS_MIN));
      const frames = read();
      const [tasks, waiting, issued] = [frames.calls, frames.bios, frames.requests].map(readFrameEntries) as [
        FrameEntry[],
        RequestEntry[],
        RequestEntry[],
      ];
      const isOld = ({ startNs }: FrameEntry) => startNs <= nowNs - foundNs;
      const isThere = ({ startNs }: FrameEntry) => startNs > nowNs - WAIT_MAX_NS;
      const bios = waiting.filter(isThere).sort(compareSectors);
      if (bios.length < waiting.length) forgetBios(nowNs - WAIT_MAX_NS);
      for (const { request } of bios) request.isBio = true;
      // A bio that is issued between the read of the bios and the read of the requests is in both lists, so it is
      // removed here.
      for (const { request, startNs } of issued)
        if (startNs + request.queueNs >= nowNs - ISSUING_NS_MAX)
          endWithin(bios, { request, startNs, endNs: startNs + request.queueNs });
      const calls = tasks.filter(isOld);
      latest = {
        calls: new Map(calls.map((entry) => [entry.tid, entry])),
        marks: buildMarks(calls),
        requests: [...issued, ...bios.filter(({ request }) => !request.hasEnded)].filter(isOld).sort(compareSectors),
        listedUntilNs: nowNs - listedNs,
      };
      return { found: latest.calls.size + latest.requests.length, foundNs };
    },
    forgetEnded(words, decoded) {
      if (forgetEndedIn(settled, words, decoded)) isUnchanged = false;
      if (latest) forgetEndedIn(latest, words, decoded);
    },
    settle(isDrained) {
      if (isDrained && latest) {
        settled = latest;
        latest = undefined;
        isUnchanged = false;
      }
      if (isUnchanged) return;
      isUnchanged = true;
      const { calls, requests, listedUntilNs } = settled;
      const all = [...calls.values(), ...requests.filter(({ request }) => !request.hasEnded)];
      const isNamed = ({ startNs, frame }: FrameEntry) =>
        startNs <= listedUntilNs && !ensureParts().resolver.hasForgottenOwner(toFrameWords(frame), FRAME_HEADER_SIZE);
      const { named = [], nameless = [] } = Object.groupBy(all, (entry) => (isNamed(entry) ? 'named' : 'nameless'));
      const kept = named.filter(({ frame }) => accept(toFrameWords(frame), FRAME_HEADER_SIZE));
      kept.sort((a, b) => Number(b.isLabelled) - Number(a.isLabelled) || a.startNs - b.startNs);
      const frames = Buffer.concat(kept.slice(0, LISTED_MAX).map(({ frame }) => frame));
      const notOwn = nameless.filter(({ frame }) => !isOwn(toFrameWords(frame), FRAME_HEADER_SIZE));
      const others = [...kept.slice(LISTED_MAX), ...notOwn];
      // Decodes unchanged frames, too: this keeps their names in the tables, which drop unused names.
      const decoded = frames.length > 0 ? decodeFrames(frames) : undefined;
      const offsetNs = toWallNs(0);
      const isSame = frames.equals(passed) && isNear(offsetNs, passedOffsetNs);
      const isKnown = others.length === 0 && passedUnlisted === 0 && isSame;
      if (isKnown && (frames.length === 0 || latestNs - passedNs < RENEW_NS)) return;
      passed = frames;
      passedOffsetNs = offsetNs;
      passedNs = latestNs;
      passedUnlisted = others.length;
      pass({ block: copyBlock((decoded ?? decodeFrames(frames)).block), unlisted: countUnlisted(others, toWallNs) });
    },
  };
}

/** Whether the offsets are so close that the wall clock was not set between their measurements. */
function isNear(offsetNs: bigint, other: bigint): boolean {
  const steppedNs = offsetNs - other;
  return steppedNs < STEP_NS && steppedNs > -STEP_NS;
}

function buildMarks(calls: readonly FrameEntry[]): Uint8Array {
  const marks = new Uint8Array(MARK_MASK + 1);
  // Uses only the low word of the time, as forgetEndedIn() does.
  for (const { startNs } of calls) marks[(startNs % 2 ** 32) & MARK_MASK] = 1;
  return marks;
}

function countUnlisted(others: readonly FrameEntry[], wallNs: InProgressParts['toWallNs']): UnendedRows['unlisted'] {
  if (others.length === 0) return NONE_UNLISTED;
  const sinceNs = wallNs(others.reduce((least, { startNs }) => Math.min(least, startNs), others[0]!.startNs));
  return { count: others.length, labelled: others.filter(({ isLabelled }) => isLabelled).length, sinceNs };
}

/**
 * Removes from the snapshot the calls that the decoded events end, and marks the requests that these events end.
 * Returns whether the snapshot may have changed.
 */
function forgetEndedIn(
  snapshot: InProgressSnapshot,
  words: Uint32Array,
  { block, recordOffsets, typeRecordOffsets }: DecodedBlock,
): boolean {
  const { calls, marks } = snapshot;
  let hasEnded = false;
  if (calls.size > 0)
    for (let row = 0; row < block.rowCount; row++) {
      const offset = recordOffsets[row]!;
      if (marks[words[(offset + TIMESTAMP_OFFSET) >>> 2]! & MARK_MASK] === 0) continue;
      const tid = words[(offset + TID_OFFSET) >>> 2]!;
      const call = calls.get(tid);
      if (call && readU64At(words, offset + TIMESTAMP_OFFSET) === call.startNs) hasEnded = calls.delete(tid);
    }
  const { requests } = snapshot;
  const count = requests.length > 0 ? block.typeCounts[blockIo.id]! : 0;
  for (let i = 0; i < count; i++) {
    const offset = typeRecordOffsets[blockIo.id]![i]!;
    const { request, startNs } = readEntry(words, offset);
    endWithin(requests, { request: request!, startNs, endNs: startNs + readU64At(words, offset + DURATION_OFFSET) });
  }
  return hasEnded || count > 0;
}

/**
 * Marks as ended, among the sorted `entries`, the request itself and the bios that became part of it. These bios were
 * queued before the request ended; later bios belong to other requests, perhaps for the same sectors.
 */
function endWithin(entries: readonly RequestEntry[], ended: Ended): void {
  const { request: whole, startNs, endNs } = ended;
  for (
    let at = findFirstRequest(entries, whole.from);
    at < entries.length && entries[at]!.request.from <= whole.to;
    at++
  ) {
    const entry = entries[at]!;
    const { request } = entry;
    const isSame = entry.startNs === startNs && request.from === whole.from;
    const isWithin = request.to <= whole.to && request.to > request.from;
    const isPart = request.isBio && isWithin && entry.startNs >= startNs && entry.startNs <= endNs;
    if ((isSame || isPart) && isSameDevice(request, whole)) request.hasEnded = true;
  }
}

function compareSectors(a: RequestEntry, b: RequestEntry): number {
  return a.request.from - b.request.from;
}

/** Returns the index of the first request that begins at or after `sector`. */
function findFirstRequest(requests: readonly RequestEntry[], sector: number): number {
  return findFirstPlace(0, requests.length, (place) => requests[place]!.request.from >= sector);
}

function isSameDevice(one: InProgressRequest, other: InProgressRequest): boolean {
  return one.device.every((word, at) => word === other.device[at]);
}

function toFrameWords(bytes: Uint8Array): Uint32Array {
  return new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength >>> 2);
}

function readFrameEntries(frames: Uint8Array): FrameEntry[] {
  const words = toFrameWords(frames);
  const entries: FrameEntry[] = [];
  for (let at = 0; at < frames.length; ) {
    const end = at + FRAME_HEADER_SIZE + ((words[at >>> 2]! + 7) & ~7);
    // Copies the frame, because toFrameWords() needs an aligned start.
    entries.push({ ...readEntry(words, at + FRAME_HEADER_SIZE), frame: frames.slice(at, end) });
    at = end;
  }
  return entries;
}

function readEntry(words: Uint32Array, offset: number): Omit<FrameEntry, 'frame'> {
  const isRequest = (words[offset >>> 2]! & 0xffff) === blockIo.id;
  return {
    startNs: readU64At(words, offset + TIMESTAMP_OFFSET),
    tid: words[(offset + TID_OFFSET) >>> 2]!,
    isLabelled: isRequest || readU64At(words, offset + CONTEXT_OFFSET) !== 0,
    request: isRequest ? readRequest(words, offset) : undefined,
  };
}

function readRequest(words: Uint32Array, offset: number): InProgressRequest {
  const from = readU64At(words, offset + SECTOR_OFFSET);
  const to = from + readU64At(words, offset + BYTES_OFFSET) / SECTOR_BYTES;
  const device = (offset + DEVICE_OFFSET) >>> 2;
  return {
    from,
    to,
    device: Array.from(words.subarray(device, device + DEVICE_WORDS)),
    queueNs: readU64At(words, offset + QUEUE_OFFSET),
    isBio: false,
    hasEnded: false,
  };
}

/** Copies a block into arrays that contain only the values of its rows. */
function copyBlock(block: Block): Block {
  const columns = COLUMNS.map((column) => {
    const values = block.columns.get(column.name)!;
    return [column.name, values.slice(0, getColumnLength(block, column))] as const;
  });
  return { rowCount: block.rowCount, typeCounts: block.typeCounts.slice(), columns: new Map(columns) };
}
