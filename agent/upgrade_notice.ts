/**
 * Announces that a recording of a format without checksums is rewritten before an agent records into it, as this may
 * take long. The upgrade of a later format adds columns to its tables, and takes no time.
 */
import type { Logger } from 'pino';
import { RecordingError } from './recording/format/errors.ts';
import { CHECKSUMS_VERSION, FORMAT_VERSION } from './recording/format/schema.ts';
import { openReader } from './recording/read/reader.ts';

const BYTES_A_MB = 1e6;

/** Returns a function to be called when the upgrade is done. */
export function noteUpgrade(path: string, log: Pick<Logger, 'info'>): () => void {
  const older = olderRecording(path);
  if (!older) return () => {};
  const { version, sizeBytes } = older;
  const startMs = performance.now();
  const megabytes = Math.ceil(sizeBytes / BYTES_A_MB);
  log.info(
    { file: path, megabytes },
    `${path} has format ${version}: all of its ${megabytes} MB are rewritten in format ${FORMAT_VERSION} before recording begins`,
  );
  return () => {
    const seconds = Math.round((performance.now() - startMs) / 1000);
    log.info({ file: path, seconds }, `${path} has format ${FORMAT_VERSION} now, after ${seconds} s`);
  };
}

function olderRecording(path: string): { version: number; sizeBytes: number } | undefined {
  try {
    const reader = openReader(path);
    try {
      const version = reader.formatVersion();
      return version < CHECKSUMS_VERSION ? { version, sizeBytes: reader.sizeBytes() } : undefined;
    } finally {
      reader.close();
    }
  } catch (error) {
    // The writer opens it next, and reports what is wrong with it.
    if (!(error instanceof RecordingError)) throw error;
    return undefined;
  }
}
