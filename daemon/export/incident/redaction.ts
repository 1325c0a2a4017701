/**
 * Pseudonyms for every text of a recording, before any format sees it: a format cannot leak what it never had.
 * Numbers stay: times, sizes, results, process and thread ids, inodes of sockets and pipes.
 */
import { randomBytes } from 'node:crypto';
import type { Context, Dictionary, ScannedBlock } from '../../store/store.ts';
import { ExportError } from '../errors.ts';
import { remapped } from '../remap.ts';

/** Of each kind. They are kept until the export ends. */
const PSEUDONYMS_MAX = 1_000_000;

/** Names that the kernel gives: nothing but a number in them. */
const NUMBERED_FILE = /^(socket|pipe):\[\d+\]$/;
/** The recording's own marks in a path. */
const DELETED = ' (deleted)';
const FRONT_MISSING = '...';

export interface Redaction {
  readonly dictionary: Dictionary;
  redact(scanned: ScannedBlock): ScannedBlock;
}

export function newRedaction(source: Dictionary): Redaction {
  const names = entries<string>();
  const files = entries<{ path: string; kind: string }>();
  const contexts = entries<Context>();
  const numbers = { transaction: numbering(), trace: numbering(), span: numbering(), path: numbering() };
  const numbersOf = new Map<string, (text: string) => number>();

  function pseudonym(text: string, of: string): string {
    const number = numbersOf.get(of) ?? numbering();
    numbersOf.set(of, number);
    return `${of}-${number(text)}`;
  }

  function redactedContext({ transactionId, traceId, spanId }: Context): Context {
    return {
      transactionId: transactionId === null ? null : `transaction-${numbers.transaction(transactionId)}`,
      // Still what a trace id and a span id look like: tools check it.
      traceId: traceId === null ? null : hexadecimal(numbers.trace(traceId), 32),
      spanId: spanId === null ? null : hexadecimal(numbers.span(spanId), 16),
    };
  }

  const ids = {
    name: (id: number, of: string) => {
      const text = source.name(id);
      return text === '' ? 0 : names.idOf(`${of}\n${text}`, () => pseudonym(text, of));
    },
    file: (id: number) => {
      const file = source.file(id);
      if (!file) return 0;
      const { path, kind } = file;
      return files.idOf(`${kind}\n${path}`, () => ({ path: redactedPath(path, numbers.path), kind }));
    },
    context: (id: number) => {
      const context = source.context(id);
      const { transactionId, traceId, spanId } = context;
      if (transactionId === null && traceId === null && spanId === null) return 0;
      return contexts.idOf(JSON.stringify([transactionId, traceId, spanId]), () => redactedContext(context));
    },
  };
  const dictionary: Dictionary = {
    // Of each export its own: the same pseudonym stands for another text in the next one, which may be served beside it.
    recordingId: randomBytes(8).toString('hex'),
    node: 'node-1',
    name: (id) => names.entry(id) ?? '',
    file: files.entry,
    context: (id) => contexts.entry(id) ?? NO_CONTEXT,
  };
  return { dictionary, redact: ({ block }) => ({ block: remapped(block, ids), dictionary }) };
}

const NO_CONTEXT: Context = { transactionId: null, traceId: null, spanId: null };

/** Every name in the path becomes another one, so that what lies in one folder still does. */
function redactedPath(path: string, number: (text: string) => number): string {
  if (NUMBERED_FILE.test(path)) return path;
  const end = path.endsWith(DELETED) ? DELETED : '';
  const names = path.slice(0, path.length - end.length).split('/');
  return names.map((name) => (name === '' || name === FRONT_MISSING ? name : `path-${number(name)}`)).join('/') + end;
}

function hexadecimal(number: number, digits: number): string {
  return number.toString(16).padStart(digits, '0');
}

/** 1, 2, 3 in the order of first appearance. */
function numbering(): (text: string) => number {
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
  /** From 1 on. */
  idOf(key: string, make: () => Entry): number;
  entry(id: number): Entry | undefined;
}

function entries<Entry>(): Entries<Entry> {
  const number = numbering();
  const made: Entry[] = [];
  return {
    idOf(key, make) {
      const id = number(key);
      if (id > made.length) made.push(make());
      return id;
    },
    entry: (id) => made[id - 1],
  };
}
