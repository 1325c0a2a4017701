/** Whose data a block request carries: one slot an owner. */
import { blockIo } from '../../bpf/schema/block_io.ts';
import { ORIGIN_OFFSETS, ORIGIN_SIZE } from '../../bpf/schema/define.ts';
import { ORIGINS_MAX } from '../../bpf/schema/kinds.ts';
import {
  INHERITED_FLAGS,
  QUALITY_AMBIGUOUS,
  QUALITY_EXACT,
  QUALITY_INHERITED,
  QUALITY_NONE,
  QUALITY_SHARED,
  SOURCE_NONE,
  SOURCE_ORIGIN,
} from './contexts.ts';
import { CONTEXT_OFFSET, type Filler, PROCESS_OFFSET, u64At, wordPairs } from './fill.ts';

const COLUMNS_PER_SLOT = 3;
export const blockIoOffset = (field: string) => blockIo.layout.find(({ name }) => name === field)!.offset;
export const ORIGIN_COUNT_OFFSET = blockIoOffset('origin_count');
const CGROUP_OFFSET = blockIoOffset('cgroup_id');

/**
 * Runs last: whose data a request carries goes before who queued it. One owner is the event's; several have it shared,
 * and it is nobody's.
 */
export const fillOrigins: Filler = ({ layout, columns }, decoded, { contexts, processes, cgroupServiceId }) => {
  const { block, recordOffsets } = decoded;
  const rowContexts = block.columns.get('context')!;
  const rowSources = block.columns.get('context_source')!;
  const rowQualities = block.columns.get('context_quality')!;
  const rowServices = block.columns.get('service')!;
  const slots = Array.from({ length: ORIGINS_MAX }, (_, slot) => {
    const [service, context, bytes] = columns.slice(slot * COLUMNS_PER_SLOT, (slot + 1) * COLUMNS_PER_SLOT);
    return {
      offset: layout.offset + slot * ORIGIN_SIZE,
      services: block.columns.get(service!.name)!,
      contexts: block.columns.get(context!.name)!,
      bytes: wordPairs(block.columns.get(bytes!.name)!),
    };
  });
  const [first] = slots;

  function setOwner(row: number, context: number | bigint, source: number, quality: number): void {
    rowContexts[row] = context;
    rowSources[row] = source;
    rowQualities[row] = quality;
  }

  return (words, offsets, count) => {
    let row = 0;
    for (let i = 0; i < count; i++) {
      const record = offsets[i]!;
      while (recordOffsets[row] !== record) row++;
      const originCount = words[(record + ORIGIN_COUNT_OFFSET) >>> 2]!;
      let isShared = originCount > ORIGINS_MAX;
      let isOneService = !isShared;
      let isQueuers = false;
      for (const [index, slot] of slots.entries()) {
        const origin = record + slot.offset;
        slot.services[i] = 0;
        slot.contexts[i] = 0;
        slot.bytes[2 * i] = words[(origin + ORIGIN_OFFSETS.bytes) >>> 2]!;
        slot.bytes[2 * i + 1] = 0;
        if (index >= originCount) continue;
        const processId = u64At(words, origin + ORIGIN_OFFSETS.process_id);
        const flags = words[(origin + ORIGIN_OFFSETS.flags) >>> 2]!;
        const timeNs = u64At(words, origin + ORIGIN_OFFSETS.time_ns);
        const owner = contexts.ownerAt(u64At(words, origin + ORIGIN_OFFSETS.context_id), flags, timeNs);
        const process = processes.of(processId);
        slot.services[i] = owner?.service && !process.isNamedByRule ? owner.serviceId : process.serviceId;
        slot.contexts[i] = owner ? owner.contextId : 0;
        if (slot.contexts[i] !== first!.contexts[i]) isShared = true;
        if (slot.services[i] !== first!.services[i]) isOneService = false;
        if (isSameOwner(words, record, origin)) isQueuers = true;
      }
      if (originCount === 0) continue;
      if (isShared) {
        setOwner(row, 0, SOURCE_ORIGIN, QUALITY_SHARED);
      } else if (!isQueuers) {
        const flags = words[(record + first!.offset + ORIGIN_OFFSETS.flags) >>> 2]!;
        const context = first!.contexts[i]!;
        if (context === 0) setOwner(row, 0, SOURCE_NONE, QUALITY_NONE);
        else setOwner(row, context, SOURCE_ORIGIN, flags & INHERITED_FLAGS ? QUALITY_INHERITED : QUALITY_EXACT);
      } else if (rowContexts[row] === 0 && processes.of(u64At(words, record + PROCESS_OFFSET)).isKernelThread) {
        // The block layer charges what a file's first writer began: a guess, of a service alone.
        const charged = cgroupServiceId(u64At(words, record + CGROUP_OFFSET));
        if (charged === 0) continue;
        first!.services[i] = charged;
        setOwner(row, 0, SOURCE_ORIGIN, QUALITY_AMBIGUOUS);
      }
      if (isOneService) rowServices[row] = first!.services[i]!;
    }
  };
};

/** Whether an event's own task is the origin. */
function isSameOwner(words: Uint32Array, record: number, origin: number): boolean {
  return (
    u64At(words, record + CONTEXT_OFFSET) === u64At(words, origin + ORIGIN_OFFSETS.context_id) &&
    u64At(words, record + PROCESS_OFFSET) === u64At(words, origin + ORIGIN_OFFSETS.process_id)
  );
}
