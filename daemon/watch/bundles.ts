/** Writes and removes the bundle files of transactions in a folder. */
import { createHash } from 'node:crypto';
import { mkdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { nowNs } from '../base/wall_clock.ts';
import { Interrupted } from '../export/errors.ts';
import { FORMATS } from '../export/formats/format.ts';
import { exportEvents } from '../export/incident/export.ts';
import { buildSelection } from '../export/incident/selection.ts';
import { openSource } from '../export/source.ts';

export interface BundleRequest {
  /**
   * The folder that the agent records into. A recording given by its own path would count as foreign and be checked.
   */
  data: string;
  recordingId: string;
  transactionId: string;
  /** Wall-clock time of the match, which distinguishes the bundles of an id that is used again. */
  matchedMs: number;
  folder: string;
  /** Maximum size of the bundle; a larger bundle is not written. */
  bytesMax: number;
  signal: AbortSignal;
}

export type BundleResult = { kind: 'written'; file: string; bytes: number } | { kind: 'too_large' } | { kind: 'gone' };

const NAME_MAX = 60;
const HASH_DIGITS = 16;

/**
 * Returns the name of a match's bundle file: the start of the transaction's id with unsafe characters replaced, and a
 * hash. The hash distinguishes ids that the replacement makes equal, and matches of an id that is used again.
 */
export function nameBundle({
  recordingId,
  transactionId,
  matchedMs,
}: Pick<BundleRequest, 'recordingId' | 'transactionId' | 'matchedMs'>): string {
  const harmless = transactionId
    .slice(0, NAME_MAX)
    .replaceAll(/[^\w.-]/g, '_')
    .replace(/^[.-]/, '_');
  const hash = createHash('sha256')
    .update(JSON.stringify([recordingId, transactionId, matchedMs]))
    .digest('hex');
  return `${harmless}-${hash.slice(0, HASH_DIGITS)}.kreplay`;
}

/**
 * Writes the bundle of a match and replaces an earlier one of the same match. Throws an ExportError with advice, for
 * example if the disk is full.
 */
export async function writeBundle(request: BundleRequest): Promise<BundleResult> {
  const { data, recordingId, transactionId, folder, bytesMax, signal } = request;
  mkdirSync(folder, { recursive: true, mode: 0o750 });
  const file = nameBundle(request);
  const output = join(folder, file);
  const size = new AbortController();
  const source = openSource(data);
  try {
    if (source.reader.recordingId !== recordingId || !source.reader.readTransaction(transactionId))
      return { kind: 'gone' };
    await exportEvents({
      source,
      selection: buildSelection(source, { transactionId, contextNs: 0n }, nowNs()),
      format: FORMATS.bundle,
      output,
      force: true,
      redact: false,
      signal: AbortSignal.any([signal, size.signal]),
      onProgress: ({ bytes }) => {
        if (bytes > bytesMax) size.abort();
      },
    });
  } catch (error) {
    if (error instanceof Interrupted && size.signal.aborted) return { kind: 'too_large' };
    throw error;
  } finally {
    source.close();
  }
  const { size: bytes } = statSync(output);
  if (bytes <= bytesMax) return { kind: 'written', file, bytes };
  rmSync(output, { force: true });
  return { kind: 'too_large' };
}

export function removeBundle(folder: string, file: string): void {
  rmSync(join(folder, file), { force: true });
}
