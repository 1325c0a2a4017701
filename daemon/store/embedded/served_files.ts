/**
 * Finds the files that are served at present. The files change when the agent creates its recording, and when imports
 * are added or removed.
 */
import { type BigIntStats, lstatSync, readdirSync, statSync } from 'node:fs';
import { join, normalize } from 'node:path';
import { RecordingError } from '../../../agent/recording/format/errors.ts';
import { isRecorded } from '../../../agent/recording/write/lock.ts';
import { isSetAside } from '../../../agent/recording/write/set_aside.ts';

export interface ServedFile {
  readonly path: string;
  /** Identifies the file at this path, together with its log or, if no process writes the file, with its content. */
  readonly identity: string;
  readonly isFile: boolean;
  /** Reason for serving the file: an option names it, an agent records into it, or it is in the folder of imports. */
  readonly source: 'named' | 'live' | 'imported';
  /** Whether the file is untrusted: only the recording that an agent writes in a data folder is trusted. */
  readonly isForeign: boolean;
  /** A text that changes when the import is written to. */
  readonly stamp: string;
}

/** If a folder's last change is older than this, the next change surely gets a different modification time. */
const SETTLED_NS = 2_500_000_000n;

export interface ServedPaths {
  /** A folder that an agent records into, or a recording file. */
  data: string | undefined;
  /** Recordings that must exist. */
  recordings: readonly string[];
  /** Whether only the agent's own recording in the folder `data` is served, and no imports. */
  isLiveOnly?: boolean;
}

/** Lists all served files. Each path occurs once, and the recording of the data folder comes first. */
export function listAllServedFiles({ data, recordings, isLiveOnly = false }: ServedPaths): ServedFile[] {
  const found = data === undefined ? [] : isLiveOnly ? listLiveFile(data) : listServedFiles(data);
  const files = [...found, ...recordings.map(findNamedFile)];
  return [...new Map(files.map((file) => [file.path, file])).values()];
}

/** Creates the error for a folder without recordings. */
export function createNoRecordingError({ data = '.' }: ServedPaths): RecordingError {
  const path = join(data, 'recording.kreplay');
  return new RecordingError(
    'recording_missing',
    `there is no recording at ${path} yet: start the agent, it creates it; the daemon then opens it by itself`,
  );
}

export function findNamedFile(name: string): ServedFile {
  const path = normalize(name);
  const file = findServedFile(path, 'named');
  if (file) return file;
  throw new RecordingError('recording_missing', `there is no file ${path}: give the path of a recording`);
}

function listServedFiles(data: string): ServedFile[] {
  const stats = readFileStats(data);
  if (stats && !stats.isDirectory()) return [{ ...buildServedFile('live', normalize(data), stats), isForeign: true }];
  const imported = listImportedPaths(join(data, 'imported')).map(findImportedFile);
  const damaged = (stats ? readFolderNames(data, stats) : [])
    .filter(isSetAside)
    .map((name) => findImportedFile(join(data, name)));
  return [...listLiveFile(data), ...[...imported, ...damaged].filter((file) => file !== undefined)];
}

/** Returns an empty list if the agent has not created its recording yet. */
function listLiveFile(folder: string): ServedFile[] {
  const live = findServedFile(join(folder, 'recording.kreplay'), 'live');
  return live ? [live] : [];
}

/**
 * Lists imports, sorted so that their order is stable. Skips names that begin with a dot, which unfinished files have.
 */
function listImportedPaths(folder: string): string[] {
  const stats = readFileStats(folder);
  if (!stats) return [];
  return readFolderNames(folder, stats)
    .filter((name) => name.endsWith('.kreplay') && !name.startsWith('.'))
    .map((name) => join(folder, name));
}

/** Contents of folders, kept until the folders change. */
const listed = new Map<string, { stamp: string; names: readonly string[] }>();

function readFolderNames(folder: string, { dev, ino, mtimeNs, ctimeNs }: BigIntStats): readonly string[] {
  const stamp = `${dev}:${ino}:${mtimeNs}:${ctimeNs}`;
  const known = listed.get(folder);
  if (known?.stamp === stamp) return known.names;
  const nowNs = BigInt(Date.now()) * 1_000_000n;
  const names = withReadErrors(folder, () => readdirSync(folder)).sort();
  // A later change may have the same modification time, because some file systems store times in steps of two seconds.
  if (nowNs - mtimeNs > SETTLED_NS) listed.set(folder, { stamp, names });
  else listed.delete(folder);
  return names;
}

/** Returns the import at a path. A dangling symbolic link also counts as an import, although it is not a file. */
function findImportedFile(path: string): ServedFile | undefined {
  const link = () => withReadErrors(path, () => lstatSync(path, { bigint: true, throwIfNoEntry: false }));
  const stats = readFileStats(path) ?? link();
  return stats && buildServedFile('imported', path, stats);
}

function findServedFile(path: string, source: ServedFile['source']): ServedFile | undefined {
  const stats = readFileStats(path);
  return stats && buildServedFile(source, path, stats);
}

function buildServedFile(source: ServedFile['source'], path: string, stats: BigIntStats): ServedFile {
  const { dev, ino, size, mtimeNs, ctimeNs } = stats;
  // The log is part of the identity, so that the file is opened again if its log is removed. Otherwise the reader would
  // continue with the removed log, whereas the agent starts another log.
  const log = source === 'imported' ? undefined : readFileStats(`${path}-wal`);
  const isWritten = log && (source === 'live' || isRecorded(path) !== false);
  const content = isWritten ? log.ino : `${size}:${mtimeNs}:${ctimeNs}`;
  return {
    path,
    identity: `${dev}:${ino}:${content}`,
    isFile: stats.isFile(),
    source,
    isForeign: source !== 'live',
    stamp: `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`,
  };
}

function readFileStats(path: string): BigIntStats | undefined {
  return withReadErrors(path, () => statSync(path, { bigint: true, throwIfNoEntry: false }));
}

function withReadErrors<Result>(path: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw new RecordingError('recording_not_readable', `${path}: ${(error as Error).message}`, error);
  }
}
