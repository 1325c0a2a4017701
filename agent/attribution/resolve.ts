/** Fills the columns whose values are looked up or converted: times, texts, processes, contexts, files, origins. */
import { blockIo } from '../../bpf/schema/block_io.ts';
import { type DecodedBlock, REFERENCE_FIELDS } from '../../bpf/schema/decoder.ts';
import { ORIGIN_OFFSETS, ORIGIN_SIZE } from '../../bpf/schema/define.ts';
import type { ColumnSource } from '../../bpf/schema/kinds.ts';
import {
  CONTEXT_OFFSET,
  type Fill,
  type Filler,
  FLAGS_OFFSET,
  fillFiles,
  fillOwners,
  fillQueuers,
  fillServices,
  fillTexts,
  fillTimes,
  PROCESS_OFFSET,
  type ReferenceTables,
  readU64At,
  TIMESTAMP_OFFSET,
} from './fill.ts';
import { countOrigins, fillOrigins, getBlockIoOffset, ORIGIN_COUNT_OFFSET } from './fill_origins.ts';

/** Fillers by the source of the column, in the order in which they run. */
const FILLERS = new Map<ColumnSource, Filler>([
  ['boot_time', fillTimes],
  ['text', fillTexts],
  ['process', fillServices],
  ['context', fillOwners],
  ['file', fillFiles],
  ['queuer', fillQueuers],
  ['origins', fillOrigins],
]);

const FIRST_ORIGIN_OFFSET = getBlockIoOffset('origins');

/** Whether the record is a block request with an origin for which `test` returns true. */
function hasOrigin(words: Uint32Array, offset: number, test: (origin: number) => boolean): boolean {
  if ((words[offset >>> 2]! & 0xffff) !== blockIo.id) return false;
  for (let slot = 0, count = countOrigins(words, offset); slot < count; slot++)
    if (test(offset + FIRST_ORIGIN_OFFSET + slot * ORIGIN_SIZE)) return true;
  return false;
}

export interface Resolver {
  /** Fills the columns. Must be called after all definitions that the records refer to have been read. */
  resolve(words: Uint32Array): void;
  /**
   * Whether the record belongs to one of the recorder's own processes, or carries data that only such a process wrote.
   */
  isOwn(words: Uint32Array, offset: number): boolean;
  /** Whether the context of the record, or of an origin of its data, was lost or is no longer in the table. */
  hasForgottenOwner(words: Uint32Array, offset: number): boolean;
  /**
   * Whether the filter accepts the service that the record's label names. If no label names a service: whether the
   * filter accepts the record's process, or a process that wrote part of the record's data.
   */
  isWanted(words: Uint32Array, offset: number, wantsService: (service: string) => boolean): boolean;
}

export function createResolver(decoded: DecodedBlock, tables: ReferenceTables): Resolver {
  const { block, recordOffsets, typeRecordOffsets } = decoded;
  const steps: { eventType: number; fill: Fill }[] = [...FILLERS].flatMap(([source, filler]) =>
    REFERENCE_FIELDS.filter(({ columns }) => columns[0]!.source === source).map((field) => ({
      eventType: field.eventType,
      fill: filler(field, decoded, tables),
    })),
  );
  return {
    resolve(words) {
      for (const { eventType, fill } of steps) {
        if (eventType === 0) fill(words, recordOffsets, block.rowCount);
        else fill(words, typeRecordOffsets[eventType]!, block.typeCounts[eventType]!);
      }
    },
    hasForgottenOwner(words, offset) {
      const { contexts } = tables;
      const isForgotten = (contextAt: number, flagsAt: number) =>
        contexts.isForgotten(readU64At(words, contextAt), words[flagsAt >>> 2]!);
      const { context_id, flags } = ORIGIN_OFFSETS;
      return (
        isForgotten(offset + CONTEXT_OFFSET, offset + FLAGS_OFFSET) ||
        hasOrigin(words, offset, (origin) => isForgotten(origin + context_id, origin + flags))
      );
    },
    isWanted(words, offset, wantsService) {
      const { processes, contexts } = tables;
      const flags = words[(offset + FLAGS_OFFSET) >>> 2]!;
      const startNs = readU64At(words, offset + TIMESTAMP_OFFSET);
      const labelled = contexts.findNames(readU64At(words, offset + CONTEXT_OFFSET), flags, startNs)?.service;
      if (labelled) return wantsService(labelled);
      if (processes.get(readU64At(words, offset + PROCESS_OFFSET)).isWanted) return true;
      return hasOrigin(
        words,
        offset,
        (origin) => processes.get(readU64At(words, origin + ORIGIN_OFFSETS.process_id)).isWanted,
      );
    },
    isOwn(words, offset) {
      const isProcessOwn = (at: number) => tables.processes.get(readU64At(words, at)).own;
      if (isProcessOwn(offset + PROCESS_OFFSET)) return true;
      // The recorder also owns requests in which the kernel writes back only the recorder's files.
      const isBlockIo = (words[offset >>> 2]! & 0xffff) === blockIo.id;
      return (
        isBlockIo &&
        words[(offset + ORIGIN_COUNT_OFFSET) >>> 2] === 1 &&
        isProcessOwn(offset + FIRST_ORIGIN_OFFSET + ORIGIN_OFFSETS.process_id)
      );
    },
  };
}
