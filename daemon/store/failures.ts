/** What went wrong with one recording among several, as the API tells it. */
import { RecordingError } from '../../agent/recording/errors.ts';
import { Problem } from '../errors.ts';
import type { ServedFile } from './served_files.ts';

/** Says which file it was, and what lets the others be served without it. */
export function failureOf({ path, source }: ServedFile, error: unknown): unknown {
  if (!(error instanceof RecordingError)) return error;
  const where = error.message.includes(path) ? '' : `${path}: `;
  const wayOut = source === 'imported' ? '; the others are served once it is out of that folder' : '';
  return new RecordingError(error.code, `${where}${error.message}${wayOut}`, error);
}

export function withFailuresOf<Result>(file: ServedFile, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw failureOf(file, error);
  }
}

/** What a client can act on differently keeps its code. */
const TOLD: readonly string[] = ['recording_missing', 'not_a_recording', 'unsupported_format', 'recording_corrupt'];

/** With a code of the API. */
export function storeError(error: unknown): unknown {
  if (!(error instanceof RecordingError) || TOLD.includes(error.code)) return error;
  return new Problem('recording_unavailable', error.message);
}

export function withStoreErrors<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw storeError(error);
  }
}
