/** The dictionaries of names, files and contexts in the gatherer, the half of a writer that gathers events. */
import type { FileKind } from '../../../bpf/schema/owner.ts';
import { type ContextText, IDS_IN_USE_MAX, type NextIds } from '../format/ids.ts';
import { RecentMap } from '../recent_map.ts';
import type { Batch, ContextRow, FileRow, NewEntries, OpenedRecording } from './batch.ts';

/**
 * Number of contexts that an agent caches. It is small because most contexts occur only once, and their texts are long.
 */
export const CONTEXTS_KNOWN_MAX = 8192;

/** The oldest dictionary ids that new events may refer to. An entry with a smaller id must get a new id. */
export interface OldestIds {
  name: number;
  context: number;
}

export interface Dictionaries {
  /** This object is updated as ids are assigned. */
  readonly oldestIds: Readonly<OldestIds>;
  /** Returns the id of a text; 0 for an empty text. */
  nameId(text: string): number;
  fileId(path: string, kind: FileKind): number;
  contextId(context: ContextText): number;
  nextIds(): NextIds;
  take(): Pick<Batch, 'names' | 'files' | 'contexts'>;
  noteCommit(): void;
}

const buildFileKey = (path: string, kind: string) => `${kind}\n${path}`;
/** The lengths ensure that two different contexts never have the same key. */
const buildContextKey = (transactionId: string | null, traceId: string | null, spanId: string | null) =>
  `${traceId?.length}.${spanId?.length} ${traceId}${spanId}${transactionId === null ? '' : `/${transactionId}`}`;

/**
 * Creates the dictionaries. `contextsKnownMax`: number of contexts that are cached, and so keep their ids when they
 * occur again.
 */
export function createDictionaries(opened: OpenedRecording, contextsKnownMax = CONTEXTS_KNOWN_MAX): Dictionaries {
  const names = new GrowingDictionary<string>(opened.lastNameId);
  const files = new GrowingDictionary<FileRow>(opened.lastFileId);
  const contexts = new GrowingDictionary<ContextRow>(opened.lastContextId, contextsKnownMax);
  const transactionKeys = new RecentMap<string, number>(IDS_IN_USE_MAX);

  for (const { id, entry } of opened.names) names.remember(entry, id);
  for (const { id, entry } of opened.files) files.remember(buildFileKey(...entry), id);
  for (const { id, entry } of opened.contexts) {
    const [transactionKey, transactionId, traceId, spanId] = entry;
    contexts.remember(buildContextKey(transactionId, traceId, spanId), id);
    if (transactionId !== null) transactionKeys.set(transactionId, transactionKey);
  }

  function addContext(key: string, context: ContextText, transactionKey: number): number {
    const { transactionId, traceId, spanId } = context;
    const id = contexts.add(key, [transactionKey, transactionId, traceId, spanId]);
    oldestIds.context = contexts.oldestUsable;
    if (id !== 0 && transactionId !== null) transactionKeys.set(transactionId, transactionKey);
    return id;
  }

  const oldestIds: OldestIds = { name: names.oldestUsable, context: contexts.oldestUsable };

  function addName(text: string): number {
    const id = names.add(text, text);
    oldestIds.name = names.oldestUsable;
    return id;
  }

  return {
    oldestIds,
    nameId: (text) => (text === '' ? 0 : (names.find(text) ?? addName(text))),
    fileId(path, kind) {
      const key = buildFileKey(path, kind);
      return files.find(key) ?? files.add(key, [path, kind]);
    },
    contextId(context) {
      const { transactionId, traceId, spanId } = context;
      if (transactionId === null && traceId === null && spanId === null) return 0;
      const key = buildContextKey(transactionId, traceId, spanId);
      // This lookup is made even for a known context: it keeps the transaction's key among the recently used keys.
      const transactionKey = transactionId === null ? 0 : (transactionKeys.get(transactionId) ?? contexts.nextId);
      return contexts.find(key) ?? addContext(key, context, transactionKey);
    },
    nextIds: () => ({ name: names.nextId, file: files.nextId, context: contexts.nextId }),
    take: () => ({ names: names.take(), files: files.take(), contexts: contexts.take() }),
    noteCommit() {
      for (const dictionary of [names, files, contexts]) dictionary.noteCommit();
    },
  };
}

/* Assigns small ids to entries. A new entry is written with the flush that first uses it. */

/**
 * Number of newer ids after which an entry gets a new id. Half of the limit is a margin: events wait between getting
 * their ids and being sealed, and newer ids are assigned meanwhile.
 */
const RENEW_AFTER = IDS_IN_USE_MAX / 2;

/**
 * Maximum number of new entries that wait for a flush. While the disk is full, further entries get the id 0, which
 * means unknown.
 */
const PENDING_MAX = 65_536;

class GrowingDictionary<Entry> {
  readonly #known: RecentMap<string, number>;
  #pending: Entry[] = [];
  #takenCount = 0;
  #nextId: number;

  /**
   * `knownMax`: number of entries that are cached. An entry that was dropped from the cache gets another id when it
   * occurs again.
   */
  constructor(lastId: number, knownMax = IDS_IN_USE_MAX) {
    this.#nextId = lastId + 1;
    this.#known = new RecentMap(knownMax);
  }

  get nextId(): number {
    return this.#nextId;
  }

  /** The smallest id that events may still refer to. An entry with a smaller id needs a new id. */
  get oldestUsable(): number {
    return Math.max(1, this.#nextId - RENEW_AFTER);
  }

  remember(key: string, id: number): void {
    this.#known.set(key, id);
  }

  find(key: string): number | undefined {
    const id = this.#known.get(key);
    return id !== undefined && id >= this.oldestUsable ? id : undefined;
  }

  /** Returns a new id for the key, or 0 if too many entries wait. */
  add(key: string, entry: Entry): number {
    if (this.#pending.length >= PENDING_MAX) return 0;
    const id = this.#nextId++;
    this.#known.set(key, id);
    this.#pending.push(entry);
    return id;
  }

  /** Returns the entries that are not committed. The next `noteCommit` refers to these entries. */
  take(): NewEntries<Entry> {
    this.#takenCount = this.#pending.length;
    return { firstId: this.#nextId - this.#pending.length, entries: this.#pending.slice() };
  }

  noteCommit(): void {
    this.#pending = this.#pending.slice(this.#takenCount);
    this.#takenCount = 0;
  }
}
