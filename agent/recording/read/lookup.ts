/**
 * The reader's dictionaries. Entries never change, so entries that were read are cached. An entry that was missing is
 * queried again.
 */
import type Database from 'better-sqlite3';
import { type Block, getColumnLength } from '../../../bpf/schema/block.ts';
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import type { ColumnSource } from '../../../bpf/schema/kinds.ts';
import type { FileKind } from '../../../bpf/schema/owner.ts';
import { createContextFinder } from '../format/context_finder.ts';
import { createCorruptError } from '../format/errors.ts';
import type { ContextText } from '../format/ids.ts';
import { RecentMap } from '../recent_map.ts';
import { createFileFinder, type FileFinder } from './file_finder.ts';
import { isShort, type Keep, TEXT_MAX } from './sizes.ts';

/** Maximum number of cached entries of each dictionary, for a reader that may read an event more than once. */
export const CACHED_MAX = 65_536;

const NAME = 'SELECT text FROM name WHERE name_id = ?';
const NAME_IDS = 'SELECT name_id FROM name WHERE text = ?';
const FILE = 'SELECT path, kind FROM file WHERE file_id = ?';
const CONTEXTS = `
SELECT context_id, transaction_id, trace_id, span_id
FROM context
WHERE context_id BETWEEN ? AND ?`;
/** Maximum number of contexts that one query reads. */
const CONTEXTS_AHEAD_MAX = 512;
const SERVICES = 'SELECT DISTINCT text FROM service JOIN name USING (name_id) ORDER BY text';

export interface RecordedFile {
  path: string;
  kind: FileKind;
}

export interface Lookup {
  /** Returns the text of a name; an empty text for the id 0. */
  name(id: number): string;
  /** Returns the file with this id; undefined for the id 0. */
  file(id: number): RecordedFile | undefined;
  context(id: number): ContextText;
  nameIds(text: string): number[];
  files: FileFinder;
  services(): string[];
  findContextsByTransaction(id: string): number[];
  findTransactionKeys(id: string): number[];
  findContextsByTrace(id: string): number[];
  /** Reads and caches the entries that the ids of a block refer to, because retention may remove them later. */
  remember(block: Block): void;
}

/** The dictionary that a column's ids refer to, by the column's source. */
const KINDS: Readonly<Partial<Record<ColumnSource, 'name' | 'file' | 'context'>>> = {
  text: 'name',
  process: 'name',
  context: 'context',
  file: 'file',
};

const REFERENCES = COLUMNS.flatMap((column) => {
  const kind = findDictionaryKind(column);
  return kind ? [{ column, kind }] : [];
});

/** Number of slots of a lookup table; must be a power of two. */
const SEEN_SLOTS = 1024;

function readEach(ids: Uint32Array, length: number, seen: Uint32Array, read: (id: number) => unknown): void {
  for (let i = 0; i < length; i++) {
    const id = ids[i]!;
    if (seen[id & (SEEN_SLOTS - 1)] === id) continue;
    seen[id & (SEEN_SLOTS - 1)] = id;
    read(id);
  }
}

/** Returns the dictionary that a column's ids refer to; undefined if the column has no ids. */
export function findDictionaryKind({ name, source, storage }: Column): 'name' | 'file' | 'context' | undefined {
  if (source !== 'origins' && source !== 'queuer') return storage === 'u32' ? KINDS[source] : undefined;
  if (name.endsWith('_context')) return 'context';
  return name.endsWith('_service') ? 'name' : undefined;
}

const NO_CONTEXT: ContextText = { transactionId: null, traceId: null, spanId: null };

/** Opens the dictionaries. `keep` caches the contexts found for a transaction id or a trace id. */
export function openLookup(database: Database.Database, keep: Keep = (work) => work, cachedMax = CACHED_MAX): Lookup {
  const nameIds = database.prepare<[string], number>(NAME_IDS).pluck();
  const services = database.prepare<[], string>(SERVICES).pluck();
  const finder = createContextFinder(database);
  const ofTransaction = keep(finder.findByTransaction, isShort);
  const ofTrace = keep(finder.findByTrace, isShort);
  const name = createCachedReader(database.prepare<[number], string>(NAME).pluck(), cachedMax);
  const file = createCachedReader(database.prepare<[number], RecordedFile>(FILE), cachedMax);
  const context = createContextReader(database, cachedMax);
  const known = {
    name: createReferenceCheck(name),
    file: createReferenceCheck(file),
    context: createReferenceCheck(context),
  };
  /**
   * Ids of the block that were already read. The lowest bits of an id determine its slot. Most ids occur many times in
   * a block.
   */
  const seen = {
    name: new Uint32Array(SEEN_SLOTS),
    file: new Uint32Array(SEEN_SLOTS),
    context: new Uint32Array(SEEN_SLOTS),
  };
  return {
    remember(block) {
      for (const slots of Object.values(seen)) slots.fill(0);
      for (const { column, kind } of REFERENCES) {
        const ids = block.columns.get(column.name) as Uint32Array | undefined;
        if (ids) readEach(ids, getColumnLength(block, column), seen[kind], known[kind]);
      }
    },
    name: (id) => name(id) ?? '',
    file,
    context: (id) => context(id) ?? NO_CONTEXT,
    nameIds: (text) => nameIds.all(text),
    files: createFileFinder(database),
    services: () => services.all(),
    findContextsByTransaction: (id) => ofTransaction(id).map((row) => row.context_id),
    findTransactionKeys: (id) => [...new Set(ofTransaction(id).map((row) => row.transaction_key))],
    findContextsByTrace: (id) => ofTrace(id).map((row) => row.context_id),
  };
}

/**
 * Returns a function that throws if an entry is missing. A missing entry is damage: the writer writes it together with
 * the event, and retention keeps it as long as the event.
 */
function createReferenceCheck(getEntry: (id: number) => unknown): (id: number) => void {
  return (id) => {
    if (id !== 0 && getEntry(id) === undefined) throw createCorruptError('an event names what is not there');
  };
}

const isText = (value: unknown): boolean => typeof value === 'string' && value.length <= TEXT_MAX;
const isTextOrNull = (value: unknown): boolean => value === null || isText(value);

/** Returns whether all values of an entry (a name or a file) are texts. */
function isEntry(entry: unknown): boolean {
  return typeof entry === 'object' && entry !== null ? Object.values(entry).every(isText) : isText(entry);
}

/**
 * Returns a function that reads contexts. A scan requests contexts nearly in the order of their ids. While the ids
 * ascend, the function reads ahead, which reduces the time to a fifth.
 */
function createContextReader(database: Database.Database, cachedMax: number): (id: number) => ContextText | undefined {
  const statement = database.prepare<[number, number], [number, ...(string | null)[]]>(CONTEXTS).raw();
  const known = new RecentMap<number, ContextText>(cachedMax);
  let [last, length] = [0, 1];

  function readContextRows(id: number) {
    try {
      return statement.all(id, last);
    } catch (error) {
      // The damage may be in another context, so the requested context is read alone.
      if (last === id) throw error;
      last = id;
      return statement.all(id, id);
    }
  }

  function read(id: number): ContextText | undefined {
    const isNext = id > last && id - last <= CONTEXTS_AHEAD_MAX;
    length = isNext ? Math.min(length * 2, CONTEXTS_AHEAD_MAX) : 1;
    last = id + length - 1;
    let wanted: ContextText | undefined;
    for (const [number, transactionId = null, traceId = null, spanId = null] of readContextRows(id)) {
      const entry = { transactionId, traceId, spanId };
      if (Object.values(entry).every(isTextOrNull)) known.set(number, entry);
      else if (number === id) throw createCorruptError('a name in it is malformed');
      if (number === id) wanted = entry;
    }
    return wanted;
  }

  return (id) => (id === 0 ? undefined : (known.get(id) ?? read(id)));
}

function createCachedReader<Entry>(
  statement: Database.Statement<[number], Entry>,
  cachedMax: number,
): (id: number) => Entry | undefined {
  const known = new RecentMap<number, Entry>(cachedMax);
  return (id) => {
    if (id === 0) return undefined;
    const hit = known.get(id);
    if (hit !== undefined) return hit;
    const entry = statement.get(id);
    if (entry !== undefined && !isEntry(entry)) throw createCorruptError('a name in it is malformed');
    if (entry !== undefined) known.set(id, entry);
    return entry;
  };
}
