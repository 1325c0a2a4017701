/** The names of an answer: each line brings those that are new in it. */
import type { OriginOwner, Owner, Recording, Thread, What } from './event_columns.ts';
import { INTEGER, indexIn, listOf, type Parsed, recordOf, textOf } from './parsed.ts';

export interface Dictionaries {
  types: Map<number, string>;
  recordings: Recording[];
  threads: Thread[];
  whats: What[];
  owners: Owner[];
  errors: Map<number, string>;
  originOwners: OriginOwner[];
}

export const newDictionaries = (): Dictionaries => ({
  types: new Map(),
  recordings: [],
  threads: [],
  whats: [],
  owners: [],
  errors: new Map(),
  originOwners: [],
});

/** Adds what a line brings; a dictionary without news is not in the line. */
export function readDictionaries(dictionaries: Dictionaries, line: Parsed): void {
  for (const entry of entriesOf(line, 'recordings', 2)) {
    const [recordingId, node] = entry.map((value) => textOf(value, 'recordings'));
    dictionaries.recordings.push({ recordingId: recordingId!, node: node! });
  }
  for (const [recording, pid, tid, comm, service] of entriesOf(line, 'threads', 5))
    dictionaries.threads.push({
      recording: indexIn(recording, dictionaries.recordings.length, 'threads'),
      pid: indexIn(pid, 2 ** 32, 'threads'),
      tid: indexIn(tid, 2 ** 32, 'threads'),
      comm: textOf(comm, 'threads'),
      service: textOf(service, 'threads'),
    });
  for (const [operation, target, fileKind] of entriesOf(line, 'whats', 3))
    dictionaries.whats.push({
      operation: textOrNull(operation, 'whats') ?? '',
      target: textOrNull(target, 'whats'),
      fileKind: textOrNull(fileKind, 'whats'),
    });
  for (const [transactionId, source, quality, queuedBy] of entriesOf(line, 'owners', 4))
    dictionaries.owners.push({
      transactionId: textOrNull(transactionId, 'owners'),
      source: textOf(source, 'owners'),
      quality: textOf(quality, 'owners'),
      queuedBy: textOrNull(queuedBy, 'owners'),
    });
  readNames(dictionaries.types, line, 'types');
  readNames(dictionaries.errors, line, 'errors');
}

function entriesOf(line: Parsed, name: string, length: number): (readonly unknown[])[] {
  if (!Object.hasOwn(line, name)) return [];
  return listOf(line[name], name).map((entry) => listOf(entry, `an entry of ${name}`, length));
}

const textOrNull = (value: unknown, name: string) => (value === null ? null : textOf(value, name));

function readNames(names: Map<number, string>, line: Parsed, name: string): void {
  if (!Object.hasOwn(line, name)) return;
  for (const [number, text] of Object.entries(recordOf(line[name], name))) {
    if (!INTEGER.test(number)) throw new Error(`${name} has a key that is no integer`);
    names.set(Number(number), textOf(text, name));
  }
}
