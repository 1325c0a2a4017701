/** Fills the columns that name the owners of a block request's data: one slot per owner. */
import { BLOCK_OPERATIONS, blockIo } from '../../bpf/schema/block_io.ts';
import { CONTEXT_FLAGS } from '../../bpf/schema/common.ts';
import { FRAME_HEADER_SIZE } from '../../bpf/schema/decoder.ts';
import { ORIGIN_OFFSETS, ORIGIN_SIZE, ORIGIN_SLOTS, ORIGINS_MAX } from '../../bpf/schema/define.ts';
import {
  type ContextIds,
  INHERITED_FLAGS,
  type OwnerLookup,
  QUALITY_AMBIGUOUS,
  QUALITY_EXACT,
  QUALITY_INHERITED,
  QUALITY_NONE,
  QUALITY_SHARED,
  SOURCE_NONE,
  SOURCE_ORIGIN,
} from './contexts.ts';
import { CONTEXT_OFFSET, type Filler, PROCESS_OFFSET, readU64At, toWordPairs } from './fill.ts';

const COLUMNS_PER_SLOT = 3;
export const getBlockIoOffset = (field: string) => blockIo.layout.find(({ name }) => name === field)!.offset;
export const ORIGIN_COUNT_OFFSET = getBlockIoOffset('origin_count');
const CGROUP_OFFSET = getBlockIoOffset('cgroup_id');

const BYTES_OFFSET = getBlockIoOffset('bytes');
const OPERATION_OFFSET = getBlockIoOffset('operation');
const ORIGINS_OFFSET = getBlockIoOffset('origins');

/** Returns the number of origins in a request's record. */
export function countOrigins(words: Uint32Array, record: number): number {
  const size = words[(record - FRAME_HEADER_SIZE) >>> 2]!;
  return Math.min(words[(record + ORIGIN_COUNT_OFFSET) >>> 2]!, (size - ORIGINS_OFFSET) / ORIGIN_SIZE);
}

/** The owners of the current request's data. Slots with the same service and transaction are merged into one owner. */
interface Shares {
  count: number;
  /** The flags of all slots with an owner, combined by OR. */
  flags: number;
  services: number[];
  contexts: (number | bigint)[];
  ids: (ContextIds | undefined)[];
  bytes: number[];
  /** Whether several spans were merged into one owner, which then names no span. */
  hasSpans: boolean;
  /** Whether part of the data has no known owner, or an owner that the filter hides. */
  hasNobodys: boolean;
}

/** Returns the index of an owner among the shares; adds the owner if it is missing. */
function findOrAddShare(
  shares: Shares,
  contexts: OwnerLookup,
  service: number,
  context: number | bigint,
  ids: ContextIds | undefined,
): number {
  for (let place = 0; place < shares.count; place++) {
    if (shares.services[place] !== service) continue;
    if (shares.contexts[place] === context) return place;
    if (!isOneTransaction(shares.ids[place], ids)) continue;
    shares.contexts[place] = contexts.internWithoutSpan(ids!);
    shares.hasSpans = true;
    return place;
  }
  const place = shares.count++;
  shares.services[place] = service;
  shares.contexts[place] = context;
  shares.ids[place] = ids;
  shares.bytes[place] = 0;
  return place;
}

/**
 * Whether both contexts have the same transaction and trace. Their spans are merged, because the API shows origins by
 * transaction.
 */
function isOneTransaction(a: ContextIds | undefined, b: ContextIds | undefined): boolean {
  if (!a?.transactionId || !b) return false;
  return a.transactionId === b.transactionId && a.traceId === b.traceId;
}

/**
 * Fills the owners of each request's data. Runs last, because these owners replace the task that queued the request. A
 * single owner becomes the event's owner; an event with several owners is shared and has no owner.
 */
export const fillOrigins: Filler = ({ columns }, decoded, tables) => {
  const { contexts, processes, internCgroupService, wantsDataOwner } = tables;
  const { block, recordOffsets } = decoded;
  const rowContexts = block.columns.get('context')!;
  const rowSources = block.columns.get('context_source')!;
  const rowQualities = block.columns.get('context_quality')!;
  const rowServices = block.columns.get('service')!;
  const unnamedBytes = toWordPairs(block.columns.get('block_io.unnamed_bytes')!);
  const slots = Array.from({ length: ORIGINS_MAX }, (_, slot) => {
    const [service, context, bytes] = columns.slice(slot * COLUMNS_PER_SLOT, (slot + 1) * COLUMNS_PER_SLOT);
    return {
      services: block.columns.get(service!.name)!,
      contexts: block.columns.get(context!.name)!,
      bytes: toWordPairs(block.columns.get(bytes!.name)!),
    };
  });
  const [first] = slots;
  const shares: Shares = {
    count: 0,
    flags: 0,
    services: [],
    contexts: [],
    ids: [],
    bytes: [],
    hasSpans: false,
    hasNobodys: false,
  };

  function setOwner(row: number, context: number | bigint, source: number, quality: number): void {
    rowContexts[row] = context;
    rowSources[row] = source;
    rowQualities[row] = quality;
  }

  /**
   * Collects the owners of the request's data in `shares`. Returns whether the task that queued the request is among
   * them.
   */
  function collectShares(words: Uint32Array, record: number, slotCount: number): boolean {
    let isQueuers = false;
    shares.count = 0;
    shares.flags = 0;
    shares.hasSpans = false;
    shares.hasNobodys = false;
    for (let slot = 0; slot < slotCount; slot++) {
      const origin = record + ORIGINS_OFFSET + slot * ORIGIN_SIZE;
      const flags = words[(origin + ORIGIN_OFFSETS.flags) >>> 2]!;
      const timeNs = readU64At(words, origin + ORIGIN_OFFSETS.time_ns);
      const contextId = readU64At(words, origin + ORIGIN_OFFSETS.context_id);
      const process = processes.get(readU64At(words, origin + ORIGIN_OFFSETS.process_id));
      const isWanted = wantsDataOwner(process, contexts.findNames(contextId, flags, timeNs)?.service);
      const owner = isWanted ? contexts.findOwner(contextId, flags, timeNs, process) : undefined;
      // Two processes without a definition may be different owners, so no origin represents them.
      if (!isWanted || (!owner && process.id === 0)) {
        shares.hasNobodys = true;
        continue;
      }
      shares.flags |= flags;
      const service = owner?.service && !process.isNamedByRule ? owner.serviceId : processes.internService(process);
      const place = findOrAddShare(shares, contexts, service, owner ? owner.contextId : 0, owner?.ids);
      shares.bytes[place]! += words[(origin + ORIGIN_OFFSETS.bytes) >>> 2]!;
      if (isSameOwner(words, record, origin)) isQueuers = true;
    }
    return isQueuers;
  }

  /** Writes as many owners as fit; the bytes of the remaining owners count as unnamed. */
  function fillSlots(words: Uint32Array, record: number, i: number, originCount: number): void {
    const isWrite = words[(record + OPERATION_OFFSET) >>> 2] === BLOCK_OPERATIONS.write;
    const requestBytes = words[(record + BYTES_OFFSET) >>> 2]!;
    // How much of a shared page each process wrote is unknown. With a single owner, all bytes belong to that owner. Data
    // without an owner may share a page with that owner's data, so the owner then gets only the bytes that are known.
    if (isWrite && shares.count === 1 && !shares.hasNobodys && originCount <= ORIGIN_SLOTS)
      shares.bytes[0] = requestBytes;
    let named = 0;
    for (let place = 0; place < ORIGINS_MAX; place++) {
      const slot = slots[place]!;
      const isUsed = place < shares.count;
      const bytes = isUsed ? shares.bytes[place]! : 0;
      slot.services[i] = isUsed ? shares.services[place]! : 0;
      slot.contexts[i] = isUsed ? shares.contexts[place]! : 0;
      slot.bytes[2 * i] = bytes;
      slot.bytes[2 * i + 1] = 0;
      named += bytes;
    }
    unnamedBytes[2 * i] = isWrite ? Math.max(0, requestBytes - named) : 0;
    unnamedBytes[2 * i + 1] = 0;
  }

  return (words, offsets, count) => {
    let row = 0;
    for (let i = 0; i < count; i++) {
      const record = offsets[i]!;
      while (recordOffsets[row] !== record) row++;
      const originCount = words[(record + ORIGIN_COUNT_OFFSET) >>> 2]!;
      const isQueuers = collectShares(words, record, countOrigins(words, record));
      fillSlots(words, record, i, originCount);
      if (originCount === 0) continue;
      const isWhole = originCount <= ORIGIN_SLOTS;
      if (shares.count === 0) {
        setOwner(row, 0, SOURCE_NONE, QUALITY_NONE);
        rowServices[row] = processes.internService(processes.get(0));
        continue;
      }
      const isOneService = isUniform(shares.services, shares.count);
      // A label is one owner, whichever services work for it. Owners without a label differ by their services.
      const isOneOwner = isUniform(shares.contexts, shares.count) && (shares.contexts[0] !== 0 || isOneService);
      const isShared = !isWhole || shares.hasNobodys || !isOneOwner;
      const isUnsure = (shares.flags & CONTEXT_FLAGS.ORIGIN_AMBIGUOUS) !== 0;
      if (isShared) {
        setOwner(row, 0, SOURCE_ORIGIN, isUnsure ? QUALITY_AMBIGUOUS : QUALITY_SHARED);
      } else if (!isQueuers) {
        const context = first!.contexts[i]!;
        if (context === 0) setOwner(row, 0, SOURCE_NONE, QUALITY_NONE);
        else setOwner(row, context, SOURCE_ORIGIN, toOriginQuality(shares.flags));
      } else if (rowContexts[row] === 0 && processes.get(readU64At(words, record + PROCESS_OFFSET)).isKernelThread) {
        // The block layer charges a request to the cgroup of the file's first writer, so the service is a guess.
        const charged = internCgroupService(readU64At(words, record + CGROUP_OFFSET));
        if (charged === 0) continue;
        first!.services[i] = charged;
        setOwner(row, 0, SOURCE_ORIGIN, QUALITY_AMBIGUOUS);
      } else if (rowContexts[row] !== 0) {
        if (shares.hasSpans) rowContexts[row] = first!.contexts[i]!;
        // Other tasks may also have written to the pages that the queueing task dirtied.
        if (isUnsure) rowQualities[row] = QUALITY_AMBIGUOUS;
      }
      const isAllUnnamed = unnamedBytes[2 * i] === words[(record + BYTES_OFFSET) >>> 2]!;
      // The known writers of the pages may have written none of this data, so the service is unknown.
      if (shares.hasNobodys && isAllUnnamed) rowServices[row] = processes.internService(processes.get(0));
      else if (isWhole && isOneService) rowServices[row] = first!.services[i]!;
    }
  };
};

/** Whether the first `count` values are equal. */
function isUniform(values: readonly (number | bigint)[], count: number): boolean {
  return values.every((value, at) => at >= count || value === values[0]);
}

/** Derives the quality from the combined flags of the slots with an owner: the least certain slot decides. */
function toOriginQuality(flags: number): number {
  if (flags & CONTEXT_FLAGS.ORIGIN_AMBIGUOUS) return QUALITY_AMBIGUOUS;
  return flags & INHERITED_FLAGS ? QUALITY_INHERITED : QUALITY_EXACT;
}

/** Whether the task that queued the request is the origin. */
function isSameOwner(words: Uint32Array, record: number, origin: number): boolean {
  return (
    readU64At(words, record + CONTEXT_OFFSET) === readU64At(words, origin + ORIGIN_OFFSETS.context_id) &&
    readU64At(words, record + PROCESS_OFFSET) === readU64At(words, origin + ORIGIN_OFFSETS.process_id)
  );
}
