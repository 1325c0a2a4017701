/**
 * What many events of a columnar answer share: threads, operations with their files, owners. Each is listed once, and
 * the events have its index.
 */
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';
import { EVENT_ROLES, type EventRoles } from './event_roles.ts';
import { type JsonList, jsonList } from './json_list.ts';
import type { Dictionaries, LineCodes } from './line_codes.ts';
import { textOf } from './named_fields.ts';
import { rowNumbers } from './row_numbers.ts';
import type { Dictionary } from './scanned_block.ts';

/**
 * Number of entries after which all are forgotten: memory must not grow with the answer. Entries that come again are
 * then listed again, with new indexes.
 */
const ENTRIES_MAX = 65_536;

type Entry = readonly (string | number | null)[];

/** `take` returns the entries that are new since the last call. */
export interface LineEntries extends Pick<JsonList, 'take' | 'length'> {
  /** Sets the indexes of the rows [from, to). */
  setIndexes(indexes: Uint32Array, rows: NamelessRows): void;
}

/** Rows [from, to) of a line. */
export interface NamelessRows {
  codes: LineCodes;
  dictionaries: Dictionaries;
  from: number;
  to: number;
}

/** `names` are those of the codes that decide which entry a row has. */
function lineEntries(
  names: readonly (keyof LineCodes)[],
  entryOf: (codes: LineCodes, row: number, dictionary: Dictionary) => Entry,
): LineEntries {
  const found = jsonList();
  const numbers = rowNumbers<Entry>(names.length, (_, json) => found.add(json));
  /** Index of the entry whose number is 0. */
  let first = 0;
  return {
    setIndexes(indexes, { codes, dictionaries, from, to }) {
      if (numbers.count >= ENTRIES_MAX) {
        first += numbers.count;
        numbers.clear();
      }
      const rows = { codes: names.map((name) => codes[name]), from, to, scope: dictionaries };
      const entryAt = (row: number) => entryOf(codes, row, dictionaries.at(codes.dictionary[row]!));
      numbers.setNumbers(rows, entryAt, indexes);
      if (first > 0) for (let row = from; row < to; row++) indexes[row]! += first;
    },
    take: found.take,
    get length() {
      return found.length;
    },
  };
}

export interface RecordingEntries extends Pick<JsonList, 'take'> {
  /** Returns the index in the answer of a recording of the dictionary. */
  indexOf(dictionary: Dictionary, recording: number): number;
}

/** `[recording id, node]`; they are as few as files, so none is forgotten. */
export function recordingEntries(): RecordingEntries {
  const found = jsonList();
  const indexes = new Map<string, number>();
  return {
    indexOf(dictionary, recording) {
      const { recordingId, node } = dictionary.recording(recording);
      const json = JSON.stringify([recordingId, node]);
      let index = indexes.get(json);
      if (index === undefined) {
        index = indexes.size;
        indexes.set(json, index);
        found.add(json);
      }
      return index;
    },
    take: found.take,
  };
}

/** `[index of the recording, pid, tid, comm, service]`. */
export function threadEntries(recordings: RecordingEntries): LineEntries {
  return lineEntries(['dictionary', 'recording', 'pid', 'tid', 'comm', 'service'], (codes, row, dictionary) => [
    recordings.indexOf(dictionary, codes.recording[row]!),
    codes.pid[row]!,
    codes.tid[row]!,
    dictionary.name(codes.comm[row]!),
    dictionary.name(codes.service[row]!),
  ]);
}

/** `[transaction, attribution source, attribution quality, transaction of the task that queued it]`. */
export function ownerEntries(): LineEntries {
  const names = ['dictionary', 'context', 'context_source', 'context_quality', 'queuer'] as const;
  return lineEntries(names, (codes, row, dictionary) => [
    dictionary.context(codes.context[row]!).transactionId,
    ATTRIBUTION_SOURCES[codes.context_source[row]!]!,
    ATTRIBUTION_QUALITIES[codes.context_quality[row]!]!,
    dictionary.context(codes.queuer[row]!).transactionId,
  ]);
}

const ROLES_OF = new Map<number, EventRoles>(EVENT_ROLES.map((roles) => [roles.id, roles]));

/** `[operation, file or device, kind of the file]`. */
export function whatEntries(): LineEntries {
  return lineEntries(['dictionary', 'event_type', 'operation', 'place'], (codes, row, dictionary) => {
    const { operation, place } = ROLES_OF.get(codes.event_type[row]!)!;
    const placeCode = codes.place[row]!;
    return [
      operation ? textOf(operation.kind, codes.operation[row]!, dictionary) : null,
      // A device without a name is unknown.
      (place && textOf(place.kind, placeCode, dictionary)) || null,
      place?.kind.source === 'file' ? (dictionary.file(placeCode)?.kind ?? 'unknown') : null,
    ];
  });
}
