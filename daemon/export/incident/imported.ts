/**
 * Imports recordings into a data folder. Each recording is copied and checked completely; its file name contains its
 * recording id and a hash of its content.
 */
import { createHash } from 'node:crypto';
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import { copyTo, openDatabase } from '../../../agent/recording/format/database.ts';
import {
  createCorruptError,
  RecordingError,
  runWithRecordingErrors,
  toRecordingError,
} from '../../../agent/recording/format/errors.ts';
import { openReader, type RecordingInfo } from '../../../agent/recording/read/reader.ts';
import { checkSizes } from '../../../agent/recording/read/sizes.ts';
import { runWithReadErrors, runWithWriteErrors, toWriteError } from '../errors.ts';
import { createHiddenFile, createHiddenFolder, removeAbandoned } from '../new_file.ts';

const HASH_DIGITS = 12;
const HASH_CHUNK_BYTES = 1 << 20;

const UNKNOWN_TYPES = 'it has event types that this kreplay does not know: use a newer one';

interface Imported {
  path: string;
  info: RecordingInfo;
  /** Whether an identical recording was already in the folder. */
  known: boolean;
}

export interface ListedImport {
  path: string;
  /** Information about the recording, or the error that makes it unreadable. */
  info: RecordingInfo | RecordingError;
}

/** Copies the recording at `file` into `data`. The original file is not changed. */
export function importRecording(file: string, data: string): Imported {
  const folder = join(data, 'imported');
  runWithWriteErrors(folder, () => mkdirSync(folder, { recursive: true }));
  const source = makeReachable(file, folder);
  const copy = createHiddenFile(folder, folder);
  try {
    copyDatabase(source.path, copy.path, folder);
    const info = checkCopy(copy.path, file);
    const path = join(folder, `${info.recordingId}-${hashContent(copy.path)}.kreplay`);
    const known = existsSync(path);
    // A concurrent import of the same file creates an identical copy, so replacing it is safe.
    if (!known) copy.show(path, { force: true });
    return { path, info, known };
  } finally {
    copy.discard();
    source.discard();
  }
}

export function listImported(data: string): ListedImport[] {
  const folder = join(data, 'imported');
  const found = runWithReadErrors(folder, () =>
    statSync(folder, { throwIfNoEntry: false }) ? readdirSync(folder) : [],
  );
  removeAbandoned(folder);
  const names = found.filter((name) => name.endsWith('.kreplay') && !name.startsWith('.'));
  return names.sort().map((name) => readListedImport(join(folder, name)));
}

function readListedImport(path: string): ListedImport {
  try {
    return { path, info: readRecordingInfo(path) };
  } catch (error) {
    if (!(error instanceof RecordingError)) throw error;
    return { path, info: error };
  }
}

function readRecordingInfo(path: string): RecordingInfo {
  const reader = openReader(path);
  try {
    return reader.info();
  } finally {
    reader.close();
  }
}

/**
 * Returns a path where SQLite can read the recording. To read a write-ahead log, SQLite creates an index (-shm) next to
 * the log, but the recording's folder may be read-only. In this case, the recording is copied into `folder`. A
 * recording that already has an index is not copied: another process may be writing it, so a copy could be
 * inconsistent.
 */
function makeReachable(file: string, folder: string): { path: string; discard(): void } {
  runWithReadErrors(file, () => statSync(file, { throwIfNoEntry: false }));
  try {
    readRecordingInfo(file);
    return { path: file, discard() {} };
  } catch (error) {
    const { code } = error as { code?: unknown };
    const unindexed = existsSync(`${file}-wal`) && !existsSync(`${file}-shm`);
    if (!unindexed || (code !== 'recording_not_readable' && code !== 'recording_not_writable')) throw error;
  }
  const scratch = runWithWriteErrors(folder, () => createHiddenFolder(folder));
  const discard = () => rmSync(scratch, { recursive: true, force: true });
  try {
    const path = join(scratch, 'recording.kreplay');
    for (const end of ['', '-wal']) copyFileSync(file + end, path + end);
    return { path, discard };
  } catch (error) {
    discard();
    throw toWriteError(error, folder);
  }
}

/** Error codes of VACUUM INTO for problems of the source file. All other codes are problems of the target file. */
const OF_SOURCE = /^SQLITE_(CORRUPT|NOTADB|BUSY|TOOBIG|IOERR_DATA|IOERR_READ|IOERR_SHORT_READ|IOERR_CORRUPTFS)/;

/** Copies a recording. The copy includes data that is still in the write-ahead log, but no remains of deleted data. */
function copyDatabase(from: string, to: string, folder: string): void {
  const database = runWithRecordingErrors(from, () => openDatabase(from, { readonly: true }));
  try {
    checkSizes(database);
    copyTo(database, to);
  } catch (error) {
    const ofSource = OF_SOURCE.test((error as { code?: string }).code ?? '');
    const known = ofSource || error instanceof RecordingError ? error : toWriteError(error, folder);
    throw known === error ? toRecordingError(error, from) : known;
  } finally {
    database.close();
  }
}

/** Checks the copy at `path` by decoding every segment. Error messages refer to the file as `name`. */
function checkCopy(path: string, name: string): RecordingInfo {
  const reader = openReader(path);
  try {
    const info = reader.info();
    let events = 0;
    for (const block of reader.scan({ order: 'none' })) {
      events += block.rowCount;
      if (reader.foundDamage().any) break;
    }
    const [wrong] = reader.foundDamage().any ? [] : reader.findWrongEntries(1);
    if (wrong) throw createCorruptError(`${wrong}, so that queries would miss them`);
    reader.clockSteps();
    reader.recordedSpan();
    while (!reader.transactionIndex.step());
    // Reading the losses detects damage in their list.
    reader.losses(undefined, undefined, 'all');
    const isDamaged = reader.foundDamage().any;
    if (events === info.eventCount && !isDamaged) return info;
    if (!isDamaged) throw new RecordingError('unsupported_format', UNKNOWN_TYPES);
    throw createCorruptError(`only ${events} of its ${info.eventCount} events can be read`);
  } catch (error) {
    if (!(error instanceof RecordingError)) throw error;
    throw new RecordingError(error.code, `${name} was not imported: ${error.message}`, error);
  } finally {
    reader.close();
  }
}

function hashContent(path: string): string {
  const hash = createHash('sha256');
  const chunk = Buffer.alloc(HASH_CHUNK_BYTES);
  const descriptor = openSync(path, 'r');
  try {
    for (let size = readSync(descriptor, chunk); size > 0; size = readSync(descriptor, chunk))
      hash.update(chunk.subarray(0, size));
  } finally {
    closeSync(descriptor);
  }
  return hash.digest('hex').slice(0, HASH_DIGITS);
}
