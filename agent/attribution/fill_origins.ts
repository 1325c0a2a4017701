/** Whose data a block request carries: one slot an owner. */
import { blockIo } from '../../bpf/schema/block_io.ts';
import { ORIGIN_OFFSETS, ORIGIN_SIZE } from '../../bpf/schema/define.ts';
import { ORIGINS_MAX } from '../../bpf/schema/kinds.ts';
import { QUALITY_SHARED } from './contexts.ts';
import { type Filler, TIMESTAMP_OFFSET, u64At, wordPairs } from './fill.ts';

const COLUMNS_PER_SLOT = 3;
const ORIGIN_COUNT_OFFSET = blockIo.layout.find(({ name }) => name === 'origin_count')!.offset;

/** Runs last: several owners take back the one that the queueing task's context gave. */
export const fillOrigins: Filler = ({ layout, columns }, decoded, { contexts, processes }) => {
  const { block, recordOffsets } = decoded;
  const rowContexts = block.columns.get('context')!;
  const rowQualities = block.columns.get('context_quality')!;
  const slots = Array.from({ length: ORIGINS_MAX }, (_, slot) => {
    const [service, context, bytes] = columns.slice(slot * COLUMNS_PER_SLOT, (slot + 1) * COLUMNS_PER_SLOT);
    return {
      offset: layout.offset + slot * ORIGIN_SIZE,
      services: block.columns.get(service!.name)!,
      contexts: block.columns.get(context!.name)!,
      bytes: wordPairs(block.columns.get(bytes!.name)!),
    };
  });

  return (words, offsets, count) => {
    let row = 0;
    for (let i = 0; i < count; i++) {
      const record = offsets[i]!;
      const startNs = u64At(words, record + TIMESTAMP_OFFSET);
      const originCount = words[(record + ORIGIN_COUNT_OFFSET) >>> 2]!;
      let shared = originCount > ORIGINS_MAX;
      for (const [index, slot] of slots.entries()) {
        const origin = record + slot.offset;
        const processId = u64At(words, origin + ORIGIN_OFFSETS.process_id);
        const flags = words[(origin + ORIGIN_OFFSETS.flags) >>> 2]!;
        const owner = contexts.ownerAt(u64At(words, origin + ORIGIN_OFFSETS.context_id), flags, startNs);
        slot.services[i] = 0;
        slot.contexts[i] = 0;
        slot.bytes[2 * i] = words[(origin + ORIGIN_OFFSETS.bytes) >>> 2]!;
        slot.bytes[2 * i + 1] = 0;
        if (index >= originCount) continue;
        slot.services[i] = owner?.service ? owner.serviceId : processes.of(processId).serviceId;
        slot.contexts[i] = owner ? owner.contextId : 0;
        if (slot.contexts[i] !== slots[0]!.contexts[i]) shared = true;
      }
      if (!shared) continue;
      while (recordOffsets[row] !== record) row++;
      rowContexts[row] = 0;
      rowQualities[row] = QUALITY_SHARED;
    }
  };
};
