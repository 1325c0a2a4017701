/** Fills the columns that refer to something: times, texts, processes, contexts, files, origins. */
import { type DecodedBlock, REFERENCE_FIELDS, recordOffset } from '../../bpf/schema/decoder.ts';
import type { Source } from '../../bpf/schema/kinds.ts';
import {
  type Fill,
  type Filler,
  fillFiles,
  fillOwners,
  fillServices,
  fillTexts,
  fillTimes,
  type Tables,
  u64At,
} from './fill.ts';
import { fillOrigins } from './fill_origins.ts';

/** In the order that they run in. */
const FILLERS = new Map<Source, Filler>([
  ['boot_time', fillTimes],
  ['text', fillTexts],
  ['process', fillServices],
  ['context', fillOwners],
  ['file', fillFiles],
  ['origins', fillOrigins],
]);

const PROCESS_OFFSET = recordOffset('process_id');

export interface Resolver {
  /** To be called when all definitions that the records refer to have been read. */
  resolve(words: Uint32Array): void;
  /** Whether the record at `offset` is of one of the recorder's own processes. */
  isOwn(words: Uint32Array, offset: number): boolean;
}

export function createResolver(decoded: DecodedBlock, tables: Tables): Resolver {
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
    isOwn: (words, offset) => tables.processes.of(u64At(words, offset + PROCESS_OFFSET)).own,
  };
}
