/**
 * Events as lines of JSON with an array for each field: a tenth of the bytes of an object for each event.
 * daemon/docs/query.md describes the lines.
 */
import type { NumberedBlock } from '../../../bpf/schema/block.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { type RowCutter, rowCutter } from './block_rows.ts';
import { bigColumn, column } from './column.ts';
import { EVENT_ROLES, type EventRoles, ROLE_COLUMNS } from './event_roles.ts';
import { dictionaryCodes, type LineCodes, newLineCodes, setCodes, setOwnCodes } from './line_codes.ts';
import { ownerEntries, recordingEntries, threadEntries, whatEntries } from './line_entries.ts';
import { lineErrors, lineOrigins } from './line_origins.ts';
import {
  type NumberColumn,
  newNumberColumn,
  setNumbers,
  setOffsets,
  VALUE_BYTES_MAX,
  writeNumbers,
} from './number_column.ts';
import type { ScannedBlock } from './scanned_block.ts';

const LINE_EVENTS_MAX = 4096;
/** Number of rows between checks of a line's size. */
const PART_ROWS = 512;
/** Length of the names in a line after which it ends early: a line should take milliseconds, not more. */
const NAMES_LENGTH_MAX = 256 * 1024;
/** Number of dictionaries after which those of earlier lines are forgotten. */
const DICTIONARIES_MAX = 1024;

/** Columns that a scan must read. */
export const LINE_COLUMNS: readonly string[] = [
  ...['duration_ns', 'service', 'context', 'context_source', 'context_quality', 'pid', 'tid', 'comm', 'result'],
  ...ROLE_COLUMNS,
];

/** The arrays of a line, in their order. */
const FIELDS = ['start', 'duration', 'type', 'thread', 'what', 'owner', 'result', 'bytes', 'queue', 'number'] as const;
/** Room for a name, its brackets and a comma. */
const NAME_BYTES_MAX = 16;
const CLOSING_BRACKET = 0x5d;
const NOTHING = Buffer.alloc(0);

/** The events that the next line has so far. */
interface Gathered {
  count: number;
  /** Number of events, from the first one on, whose names are resolved. */
  namedCount: number;
  /** Start of the first event. */
  baseNs: bigint;
  codes: LineCodes;
  numbers: Record<'start' | 'duration' | 'result' | 'bytes' | 'queue' | 'number', NumberColumn>;
  indexes: Record<'thread' | 'what' | 'owner', Uint32Array>;
}

/** Number of arrays that are kept for later lines. */
const IDLE_MAX = 4;

/** Arrays that no line uses: an answer that waits for its client should not hold any. */
const idle: Gathered[] = [];

function newGathered(): Gathered {
  const numbers = () => newNumberColumn(LINE_EVENTS_MAX);
  const indexes = () => new Uint32Array(LINE_EVENTS_MAX);
  return {
    count: 0,
    namedCount: 0,
    baseNs: 0n,
    codes: newLineCodes(LINE_EVENTS_MAX),
    numbers: {
      ...{ start: numbers(), duration: numbers(), result: numbers() },
      ...{ bytes: numbers(), queue: numbers(), number: numbers() },
    },
    indexes: { thread: indexes(), what: indexes(), owner: indexes() },
  };
}

function emptied(gathered: Gathered): Gathered {
  for (const { large } of Object.values(gathered.numbers)) large.clear();
  return Object.assign(gathered, { count: 0, namedCount: 0 });
}

/**
 * Yields the events in order, as lines of at most 4096. A line ends where reading the next block would take time; an
 * empty piece is a pause.
 */
export async function* columnLines(blocks: AsyncIterable<ScannedBlock>): AsyncGenerator<Buffer, void> {
  const lines = lineWriter();
  for await (const scanned of blocks) {
    for (const line of lines.add(scanned)) yield line;
    if (!scanned.nextAtHand) yield lines.take();
  }
  const rest = lines.take();
  if (rest.length > 0) yield rest;
}

interface LineWriter {
  /** Adds all rows; yields the lines that are full. The block must be in order of time. */
  add(scanned: ScannedBlock): Generator<Buffer, void>;
  /** Returns the line that was begun; an empty buffer if none was. */
  take(): Buffer;
}

function lineWriter(): LineWriter {
  const recordings = recordingEntries();
  const threads = threadEntries(recordings);
  const [whats, owners, errors, origins] = [whatEntries(), ownerEntries(), lineErrors(), lineOrigins()];
  let types: string | undefined = JSON.stringify(Object.fromEntries(EVENTS.map(({ id, name }) => [id, name])));
  let dictionaries = dictionaryCodes();
  let gathered: Gathered | undefined;

  /** Resolves the names of many rows at once, because recordings that alternate have blocks of one row. */
  function nameRows({ codes, indexes, numbers, namedCount: from, count: to }: Gathered): void {
    const rows = { codes, dictionaries, from, to };
    threads.setIndexes(indexes.thread, rows);
    whats.setIndexes(indexes.what, rows);
    owners.setIndexes(indexes.owner, rows);
    errors.add(numbers.result, from, to);
  }

  function addPart(to: Gathered, part: ScannedBlock): void {
    const { block } = part;
    const at = to.count;
    if (at === 0) to.baseNs = bigColumn(block, 'timestamp_ns')[0]!;
    setCodes(to.codes, at, part, dictionaries.codeOf(part.dictionary));
    setCommonNumbers(to, block);
    for (const roles of EVENT_ROLES) {
      if (block.typeCounts[roles.id] === 0) continue;
      const rows = rowsOfType(to.codes.event_type, at, block, roles.id);
      setOwnCodes(to.codes, block, roles, rows);
      setOwnNumbers(to, block, roles, rows);
      origins.add(part, roles.id, rows);
    }
    to.count += block.rowCount;
  }

  function take(): Buffer {
    if (!gathered) return NOTHING;
    nameRows(gathered);
    const names = {
      types,
      recordings: recordings.take(),
      threads: threads.take(),
      whats: whats.take(),
      owners: owners.take(),
      errors: errors.take(),
    };
    types = undefined;
    const known = Object.entries(names).filter(([, json]) => json !== undefined);
    const head = [`{"base_ns":"${gathered.baseNs}"`, ...known.map(([name, json]) => `"${name}":${json}`)];
    const line = lineOf(head.join(), gathered, `,"origins":${origins.take() ?? '[]'}}\n`);
    if (idle.length < IDLE_MAX) idle.push(gathered);
    gathered = undefined;
    // A store may have a dictionary for each of its blocks.
    if (dictionaries.count >= DICTIONARIES_MAX) dictionaries = dictionaryCodes();
    return line;
  }

  const namesLength = () => threads.length + whats.length + owners.length + origins.length;

  /** Returns whether the line is long enough. */
  function isFull(of: Gathered): boolean {
    if (of.count === LINE_EVENTS_MAX) return true;
    if (of.count - of.namedCount < PART_ROWS) return origins.length > NAMES_LENGTH_MAX;
    nameRows(of);
    of.namedCount = of.count;
    return namesLength() > NAMES_LENGTH_MAX;
  }

  return {
    *add(scanned) {
      const { rowCount } = scanned.block;
      let cut: RowCutter | undefined;
      for (let from = 0; from < rowCount; ) {
        gathered ??= emptied(idle.pop() ?? newGathered());
        const to = Math.min(from + PART_ROWS, from + LINE_EVENTS_MAX - gathered.count, rowCount);
        // A cutter costs more than a short block.
        if (to - from < rowCount) cut ??= rowCutter(scanned.block);
        addPart(gathered, cut ? { ...scanned, block: cut(from, to) } : scanned);
        from = to;
        if (isFull(gathered)) yield take();
      }
    },
    take,
  };
}

/** The rows in the line of a type's events in the block, ascending. */
function rowsOfType(
  types: Uint32Array,
  at: number,
  { typeCounts, rowCount }: NumberedBlock,
  type: number,
): Uint32Array {
  const rows = new Uint32Array(typeCounts[type]!);
  for (let row = at, found = 0; found < rows.length && row < at + rowCount; row++)
    if (types[row] === type) rows[found++] = row;
  return rows;
}

function setCommonNumbers({ count: at, baseNs, numbers }: Gathered, block: NumberedBlock): void {
  const { rowCount } = block;
  setOffsets(numbers.start, at, bigColumn(block, 'timestamp_ns') as BigUint64Array, rowCount, baseNs);
  setNumbers(numbers.duration, at, bigColumn(block, 'duration_ns'), rowCount);
  setNumbers(numbers.result, at, bigColumn(block, 'result'), rowCount, { isSigned: true });
  setNumbers(numbers.number, at, block.numbers, rowCount);
  numbers.bytes.values.fill(Number.NaN, at, at + rowCount);
  numbers.queue.values.fill(Number.NaN, at, at + rowCount);
}

function setOwnNumbers({ numbers }: Gathered, block: NumberedBlock, roles: EventRoles, rows: Uint32Array): void {
  for (const role of ['bytes', 'queue'] as const) {
    const field = roles[role];
    if (!field) continue;
    const { unknown, columns } = field.kind;
    const isSigned = columns[0]!.storage === 'i64';
    setNumbers(numbers[role], 0, column(block, field.column), rows.length, { rows, unknown, isSigned });
  }
}

/** Lines are written here before they are copied to a buffer of their size. */
let scratch = NOTHING;

function lineOf(head: string, { count, codes, numbers, indexes }: Gathered, tail: string): Buffer {
  const bytesMax = FIELDS.length * (count * VALUE_BYTES_MAX + NAME_BYTES_MAX);
  if (scratch.length < bytesMax) scratch = Buffer.allocUnsafeSlow(bytesMax);
  const columns = { ...numbers, ...indexes, type: codes.event_type };
  let end = 0;
  for (const name of FIELDS) {
    end += scratch.write(`,"${name}":[`, end, 'latin1');
    end = writeNumbers(scratch, end, columns[name], count);
    scratch[end++] = CLOSING_BRACKET;
  }
  return Buffer.concat([Buffer.from(head), scratch.subarray(0, end), Buffer.from(tail)]);
}
