/** The errors of recordings: stable codes, and messages that tell the user what to do next. */
import { UserError } from '../../process/errors.ts';

export type RecordingErrorCode =
  | 'recording_missing'
  | 'not_a_recording'
  | 'unsupported_format'
  | 'recording_locked'
  | 'recording_not_writable'
  | 'recording_not_readable'
  | 'recording_corrupt'
  | 'recording_full'
  | 'recording_busy'
  | 'recording_io_error'
  | 'pins_full';

export class RecordingError extends UserError {
  readonly code: RecordingErrorCode;

  constructor(code: RecordingErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'RecordingError';
    this.code = code;
  }
}

export function isCorrupt(error: unknown): boolean {
  return error instanceof RecordingError && error.code === 'recording_corrupt';
}

export function createCorruptError(what: string, cause?: unknown): RecordingError {
  return new RecordingError(
    'recording_corrupt',
    `the recording is damaged: ${what}; restore it from a copy, or move it away and start the agent again`,
    cause,
  );
}

/**
 * Error codes and advice by prefix of SQLite's result code. The first matching prefix applies; an extended code begins
 * with its primary code.
 */
const BY_SQLITE_CODE: readonly [prefix: string, code: RecordingErrorCode, advice: string][] = [
  ['SQLITE_FULL', 'recording_full', 'no space is left on the device: free some, or move the data folder'],
  ['SQLITE_BUSY', 'recording_busy', 'another process holds the file: try again'],
  ['SQLITE_LOCKED', 'recording_busy', 'another connection holds the file: try again'],
  [
    'SQLITE_READONLY_ROLLBACK',
    'recording_not_readable',
    'a change of it was interrupted, and its -journal is left: start the agent, which undoes that',
  ],
  ['SQLITE_READONLY', 'recording_not_writable', 'the file is read-only for this user: check owner and mode'],
  ['SQLITE_PERM', 'recording_not_writable', 'permission denied: check owner and mode'],
  ['SQLITE_CANTOPEN', 'recording_not_readable', 'it cannot be opened: check that this user may read the folder'],
  ['SQLITE_NOTADB', 'not_a_recording', 'it is not a kreplay recording: give the path of a recording.kreplay file'],
  ['SQLITE_CORRUPT', 'recording_corrupt', 'it is damaged: restore it from a copy, or move it away'],
  ['SQLITE_CONSTRAINT', 'recording_corrupt', 'its tables are damaged: restore it from a copy, or move it away'],
  ['SQLITE_ERROR', 'recording_corrupt', 'its tables are damaged: restore it from a copy, or move it away'],
  [
    'SQLITE_IOERR_DATA',
    'recording_corrupt',
    // SQLite itself computes no checksums. It changes page 1 of a copy, so that page never matches its checksum.
    'a page does not match its checksum. If SQLite itself made this file (.backup, VACUUM INTO), it cannot be read: ' +
      'copy a recording with `kreplay export --from 2020-01-01T00:00:00Z --output copy.kreplay`, or with cp when its ' +
      'agent has ended. If not, it is damaged: restore it from a copy, or move it away',
  ],
  ['SQLITE_TOOBIG', 'recording_corrupt', 'a text or blob is longer than any recording has: do not trust it'],
  ['SQLITE_IOERR', 'recording_io_error', 'reading or writing failed: check the disk and the kernel log'],
];

/** Converts an error of SQLite to a RecordingError; returns any other error unchanged. */
export function toRecordingError(error: unknown, path: string): unknown {
  const sqliteCode = (error as { code?: unknown }).code;
  if (error instanceof RecordingError || typeof sqliteCode !== 'string') return error;
  const known = BY_SQLITE_CODE.find(([prefix]) => sqliteCode.startsWith(prefix));
  if (!known) return error;
  const [, code, advice] = known;
  return new RecordingError(code, `${path}: ${advice} (${sqliteCode}: ${(error as Error).message})`, error);
}

export function runWithRecordingErrors<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw toRecordingError(error, path);
  }
}

export class SegmentGone extends Error {
  override readonly name = 'SegmentGone';
}

/**
 * Returns a RecordingError for a JavaScript error that a value of an unexpected type causes, because kreplay writes no
 * such values. Returns other errors unchanged.
 */
export function toDamageError(error: unknown): unknown {
  const isOfValues = error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError;
  return isOfValues ? createCorruptError('it has values that no recording has', error) : error;
}
