/** Maps the failure of one of several recordings to an error of the API. */
import { RecordingError } from '../../../agent/recording/format/errors.ts';
import { Problem } from '../../base/problem.ts';
import type { ServedFile } from './served_files.ts';

/** A recording error that names its file. */
export class FileError extends RecordingError {
  readonly file: ServedFile;

  constructor(file: ServedFile, error: RecordingError) {
    const where = error.message.includes(file.path) ? '' : `${file.path}: `;
    super(error.code, `${where}${error.message}`, error);
    this.file = file;
  }
}

export function toFileError(file: ServedFile, error: unknown): unknown {
  return error instanceof RecordingError && !(error instanceof FileError) ? new FileError(file, error) : error;
}

export function withFileErrors<Result>(file: ServedFile, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw toFileError(file, error);
  }
}

/**
 * Codes to which a client can react in a specific way. They stay as they are; all other codes become
 * recording_unavailable.
 */
const TOLD: readonly string[] = ['recording_missing', 'not_a_recording', 'unsupported_format', 'recording_corrupt'];

/** Converts a recording error to an error with a code of the API. */
export function toStoreError(error: unknown): unknown {
  if (!(error instanceof RecordingError) || TOLD.includes(error.code)) return error;
  return new Problem('recording_unavailable', error.message);
}

export function withStoreErrors<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw toStoreError(error);
  }
}
