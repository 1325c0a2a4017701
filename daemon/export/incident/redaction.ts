/**
 * Replaces every text of a recording with a pseudonym before the text reaches an export format, so that no format can
 * leak it. Numbers are kept: times, sizes, results, process ids, thread ids, and inodes of sockets and pipes.
 */
import { randomBytes } from 'node:crypto';
import type { Loss } from '../../../agent/recording/format/losses.ts';
import {
  type Context,
  createRecordingDictionary,
  type RecordingBlock,
  type RecordingDictionary,
} from '../../store/blocks/scanned_block.ts';
import { ExportError } from '../errors.ts';
import { remapBlock } from '../remap.ts';

/** Maximum number of pseudonyms of each kind, because all pseudonyms are in memory until the export ends. */
const PSEUDONYMS_MAX = 1_000_000;

/** Matches names that the kernel assigns to sockets and pipes; these contain only a number. */
const NUMBERED_FILE = /^(socket|pipe):\[\d+\]$/;
/** Marks that the recorder adds to a path. */
const DELETED = ' (deleted)';
const FRONT_MISSING = '...';

export interface Redaction {
  readonly dictionary: RecordingDictionary;
  redact(scanned: RecordingBlock): RecordingBlock;
  redactTransactionId(id: string): string;
  /** Replaces the names of the loss's owner. */
  redactLoss(loss: Loss): Loss;
}

export function createRedaction(source: RecordingDictionary): Redaction {
  const names = createEntries<string>();
  const files = createEntries<{ path: string; kind: string }>();
  const contexts = createEntries<Context>();
  const numbers = {
    transaction: createNumbering(),
    trace: createNumbering(),
    span: createNumbering(),
    path: createNumbering(),
  };
  const numbersOf = new Map<string, (text: string) => number>();

  function assignPseudonym(text: string, of: string): string {
    const number = numbersOf.get(of) ?? createNumbering();
    numbersOf.set(of, number);
    return `${of}-${number(text)}`;
  }

  const redactTransactionId = (id: string) => `transaction-${numbers.transaction(id)}`;

  function redactContext({ transactionId, traceId, spanId }: Context): Context {
    return {
      transactionId: transactionId === null ? null : redactTransactionId(transactionId),
      // Tools check the form of trace ids and span ids, so the pseudonyms have this form too.
      traceId: traceId === null ? null : formatHex(numbers.trace(traceId), 32),
      spanId: spanId === null ? null : formatHex(numbers.span(spanId), 16),
    };
  }

  const ids = {
    name: (id: number, of: string) => {
      const text = source.name(id);
      return text === '' ? 0 : names.findOrAddId(`${of}\n${text}`, () => assignPseudonym(text, of));
    },
    file: (id: number) => {
      const file = source.file(id);
      if (!file) return 0;
      const { path, kind } = file;
      return files.findOrAddId(`${kind}\n${path}`, () => ({ path: redactPath(path, numbers.path), kind }));
    },
    context: (id: number) => {
      const context = source.context(id);
      const { transactionId, traceId, spanId } = context;
      if (transactionId === null && traceId === null && spanId === null) return 0;
      return contexts.findOrAddId(JSON.stringify([transactionId, traceId, spanId]), () => redactContext(context));
    },
  };
  const dictionary = createRecordingDictionary({
    // Each export has a new recording id. The same pseudonym represents different texts in different exports, and a
    // daemon may serve several exports together.
    recordingId: randomBytes(8).toString('hex'),
    node: 'node-1',
    name: (id) => names.getEntry(id) ?? '',
    file: files.getEntry,
    context: (id) => contexts.getEntry(id) ?? NO_CONTEXT,
  });
  return {
    dictionary,
    redact: ({ block }) => ({ block: remapBlock(block, ids), dictionary }),
    redactTransactionId,
    redactLoss: ({ service, transactionId, ...loss }) => ({
      ...loss,
      ...(service !== undefined && { service: assignPseudonym(service, 'service') }),
      ...(transactionId !== undefined && { transactionId: redactTransactionId(transactionId) }),
    }),
  };
}

const NO_CONTEXT: Context = { transactionId: null, traceId: null, spanId: null };

/** Replaces every name in the path separately, so that files in the same folder still have a common folder. */
function redactPath(path: string, number: (text: string) => number): string {
  if (NUMBERED_FILE.test(path)) return path;
  const end = path.endsWith(DELETED) ? DELETED : '';
  const names = path.slice(0, path.length - end.length).split('/');
  return names.map((name) => (name === '' || name === FRONT_MISSING ? name : `path-${number(name)}`)).join('/') + end;
}

function formatHex(number: number, digits: number): string {
  return number.toString(16).padStart(digits, '0');
}

/** Returns a function that numbers texts in the order in which they first appear, starting at 1. */
function createNumbering(): (text: string) => number {
  const known = new Map<string, number>();
  return (text) => {
    const number = known.get(text) ?? known.size + 1;
    if (number > PSEUDONYMS_MAX)
      throw new ExportError(`more than ${PSEUDONYMS_MAX} names to redact: export a shorter window at a time`);
    known.set(text, number);
    return number;
  };
}

interface Entries<Entry> {
  /** Returns the id of the entry for `key`; ids start at 1. */
  findOrAddId(key: string, make: () => Entry): number;
  getEntry(id: number): Entry | undefined;
}

function createEntries<Entry>(): Entries<Entry> {
  const number = createNumbering();
  const made: Entry[] = [];
  return {
    findOrAddId(key, make) {
      const id = number(key);
      if (id > made.length) made.push(make());
      return id;
    },
    getEntry: (id) => made[id - 1],
  };
}
