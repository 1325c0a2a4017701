/** Fills the columns whose values are looked up or converted: times, texts, services, files and owners. */
import type { ColumnArray } from '../../bpf/schema/block.ts';
import { CONTEXT_FLAGS, CONTEXT_LOST } from '../../bpf/schema/common.ts';
import { type DecodedBlock, type ReferenceField, recordOffset } from '../../bpf/schema/decoder.ts';
import { readText } from '../../bpf/schema/record_reader.ts';
import {
  BY_REFERENCE,
  INHERITED_FLAGS,
  type Owner,
  type OwnerLookup,
  QUALITY_EXACT,
  QUALITY_INHERITED,
  QUALITY_NONE,
  SOURCE_ENVIRONMENT,
  SOURCE_HTTP,
  SOURCE_INHERITED,
  SOURCE_MARKER,
  SOURCE_NONE,
  SOURCE_OTEL,
} from './contexts.ts';
import type { Files } from './files.ts';
import type { Process, Processes } from './processes.ts';

export interface ReferenceTables {
  contexts: OwnerLookup;
  processes: Processes;
  files: Files;
  /**
   * Returns the recording's id of the service that runs in a cgroup; 0 if the cgroup does not belong to a single
   * container or unit.
   */
  internCgroupService(cgroupId: number): number;
  /** Whether the filter lets a request name `owner` as an owner of the request's data: see `wantsDataOwner`. */
  wantsDataOwner(owner: Process, label: string | null | undefined): boolean;
  internName(text: string): number;
  oldestIds: { readonly name: number };
  /** Wall clock minus CLOCK_BOOTTIME in nanoseconds: low and high 32-bit word. */
  wallOffset: Uint32Array;
}

/** Fills a field's columns for the records at `offsets[0, count)`. */
export type Fill = (words: Uint32Array, offsets: Uint32Array, count: number) => void;
export type Filler = (field: ReferenceField, decoded: DecodedBlock, tables: ReferenceTables) => Fill;

const WORD = 2 ** 32;

/** Reads a 64-bit id or boot time. Both are below 2^53, so a number is exact. */
export function readU64At(words: Uint32Array, offset: number): number {
  const at = offset >>> 2;
  return words[at]! + words[at + 1]! * WORD;
}

/** Returns a view of a 64-bit column as pairs of low and high words. */
export function toWordPairs(column: ColumnArray): Uint32Array {
  return new Uint32Array(column.buffer, column.byteOffset, column.byteLength >>> 2);
}

export const FLAGS_OFFSET = recordOffset('flags');
export const CONTEXT_OFFSET = recordOffset('context_id');
export const PROCESS_OFFSET = recordOffset('process_id');
export const TIMESTAMP_OFFSET = recordOffset('timestamp_ns');

export const fillTimes: Filler = ({ layout, columns }, { block }, { wallOffset }) => {
  const pairs = toWordPairs(block.columns.get(columns[0]!.name)!);
  return (words, offsets, count) => {
    const low = wallOffset[0]!;
    const high = wallOffset[1]!;
    for (let i = 0; i < count; i++) {
      const at = (offsets[i]! + layout.offset) >>> 2;
      const sum = words[at]! + low;
      pairs[2 * i] = sum;
      pairs[2 * i + 1] = words[at + 1]! + high + (sum >= WORD ? 1 : 0);
    }
  };
};

export const fillTexts: Filler = ({ layout, columns }, { block }, { internName, oldestIds }) => {
  const ids = block.columns.get(columns[0]!.name)!;
  const cache = createTextCache(layout.size, internName, oldestIds);
  return (words, offsets, count) => {
    for (let i = 0; i < count; i++) ids[i] = cache.internText(words, offsets[i]! + layout.offset);
  };
};

/**
 * Whether the 64-bit ids at the word indexes `at` and `other` are equal. Neighbouring records mostly have the same id,
 * so most look-ups can be skipped.
 */
function isSame(words: Uint32Array, at: number, other: number): boolean {
  return words[at] === words[other] && words[at + 1] === words[other + 1];
}

/** Returns a filler that writes the id that `find` returns for each reference. */
function fillReferences(find: (tables: ReferenceTables, id: number) => number): Filler {
  return ({ layout, columns }, { block }, tables) => {
    const values = block.columns.get(columns[0]!.name)!;
    return (words, offsets, count) => {
      let lastAt = -1;
      let found = 0;
      for (let i = 0; i < count; i++) {
        const at = (offsets[i]! + layout.offset) >>> 2;
        if (lastAt < 0 || !isSame(words, at, lastAt)) found = find(tables, readU64At(words, at << 2));
        lastAt = at;
        values[i] = found;
      }
    };
  };
}

export const fillServices = fillReferences(({ processes }, id) => processes.internService(processes.get(id)));
export const fillFiles = fillReferences(({ files }, id) => files.internFile(id));

export function toContextSource(flags: number): number {
  if (flags & CONTEXT_FLAGS.CONTEXT_OTEL) return SOURCE_OTEL;
  if (flags & CONTEXT_FLAGS.CONTEXT_ENVIRONMENT) return SOURCE_ENVIRONMENT;
  if (flags & CONTEXT_FLAGS.CONTEXT_HTTP) return SOURCE_HTTP;
  return flags & INHERITED_FLAGS ? SOURCE_INHERITED : SOURCE_MARKER;
}

/**
 * Copies the service and context of the task that queued each request. Runs after fillOwners, and before fillOrigins
 * replaces both with the owner of the request's data.
 */
export const fillQueuers: Filler = ({ columns: [service, context] }, { block, recordOffsets }) => {
  const services = block.columns.get(service!.name)!;
  const contexts = block.columns.get(context!.name)!;
  const rowServices = block.columns.get('service')!;
  const rowContexts = block.columns.get('context')!;
  return (_, offsets, count) => {
    for (let i = 0, row = 0; i < count; i++, row++) {
      while (recordOffsets[row] !== offsets[i]) row++;
      services[i] = rowServices[row]!;
      contexts[i] = rowContexts[row]!;
    }
  };
};

/**
 * Fills the columns of the owner. Runs after fillServices, because a service that a context names replaces the service
 * of the process. Only a service that an operator's rule named stays.
 */
export const fillOwners: Filler = ({ layout, columns }, { block }, { contexts, processes }) => {
  const [ids, sources, qualities] = columns.map(({ name }) => block.columns.get(name)!) as [
    ColumnArray,
    ColumnArray,
    ColumnArray,
  ];
  const services = block.columns.get('service')!;
  return (words, offsets, count) => {
    let lastAt = -1;
    let lastFlags = 0;
    let lastProcessAt = 0;
    let owner: Owner | undefined;
    for (let i = 0; i < count; i++) {
      const record = offsets[i]!;
      const at = (record + layout.offset) >>> 2;
      const flags = words[(record + FLAGS_OFFSET) >>> 2]!;
      // A lost context is looked up for each process that refers to it, so that each loss is counted.
      const isLost = words[at] === CONTEXT_LOST && words[at + 1] === 0;
      // Only a context with BY_REFERENCE flags may have ended before the event.
      const asBefore =
        flags === lastFlags &&
        (flags & BY_REFERENCE) === 0 &&
        (!isLost || isSame(words, (record + PROCESS_OFFSET) >>> 2, lastProcessAt));
      if (lastAt < 0 || !asBefore || !isSame(words, at, lastAt)) {
        const process = processes.get(readU64At(words, record + PROCESS_OFFSET));
        owner = contexts.findOwner(
          readU64At(words, at << 2),
          flags,
          readU64At(words, record + TIMESTAMP_OFFSET),
          process,
        );
      }
      lastAt = at;
      lastFlags = flags;
      lastProcessAt = (record + PROCESS_OFFSET) >>> 2;
      const inherited = flags & INHERITED_FLAGS;
      ids[i] = owner ? owner.contextId : 0;
      sources[i] = owner ? toContextSource(flags) : SOURCE_NONE;
      qualities[i] = !owner ? QUALITY_NONE : inherited ? QUALITY_INHERITED : QUALITY_EXACT;
      if (owner?.service && !processes.get(readU64At(words, record + PROCESS_OFFSET)).isNamedByRule) {
        services[i] = owner.serviceId;
      }
    }
  };
};

/*
 * Maps fixed-size texts of records to the recording's ids, without creating a string for a text that was seen before.
 */

const SLOTS = 1024;

interface TextCache {
  /** Returns the id of the NUL-padded text at byte `offset`. */
  internText(words: Uint32Array, offset: number): number;
}

/** Creates a direct-mapped cache. After a collision, a text is only decoded and interned again. */
export function createTextCache(
  size: number,
  intern: (text: string) => number,
  oldestIds: { readonly name: number },
): TextCache {
  const width = size >>> 2;
  const keys = new Uint32Array(SLOTS * width);
  /**
   * The id of each slot's text. 0: the slot is empty, or the recording had no room for the text. A text with an id
   * below `oldestIds.name` is interned again.
   */
  const ids = new Uint32Array(SLOTS);
  /** Slot of the last text: the next record mostly has the same text. */
  let lastSlot = 0;

  function holds(slot: number, words: Uint32Array, at: number): boolean {
    if (ids[slot]! < oldestIds.name) return false;
    const key = slot * width;
    for (let i = 0; i < width; i++) if (keys[key + i] !== words[at + i]) return false;
    return true;
  }

  return {
    internText(words, offset) {
      const at = offset >>> 2;
      if (holds(lastSlot, words, at)) return ids[lastSlot]!;
      let hash = 0;
      for (let i = 0; i < width; i++) hash = Math.imul(hash ^ words[at + i]!, 0x9e3779b1);
      const slot = (hash >>> 16) % SLOTS;
      if (!holds(slot, words, at)) {
        ids[slot] = intern(readText(new DataView(words.buffer, words.byteOffset), offset, size));
        keys.set(words.subarray(at, at + width), slot * width);
      }
      lastSlot = slot;
      return ids[slot]!;
    },
  };
}
