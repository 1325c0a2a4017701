/** The files that are served at present: the agent may not have started yet, and imports come and go. */
import { type BigIntStats, lstatSync, readdirSync, statSync } from 'node:fs';
import { join, normalize } from 'node:path';
import { RecordingError } from '../../../agent/recording/format/errors.ts';
import { isRecorded } from '../../../agent/recording/write/lock.ts';
import { isSetAside } from '../../../agent/recording/write/set_aside.ts';

export interface ServedFile {
  readonly path: string;
  /** Identifies the file at this path, together with its log or, if no process writes it, its content. */
  readonly identity: string;
  readonly isFile: boolean;
  /** Reason for serving the file: it was named, an agent records into it, or it is in the folder of imports. */
  readonly source: 'named' | 'live' | 'imported';
  /** Whether the file is untrusted: only the recording that an agent writes in a data folder is trusted. */
  readonly isForeign: boolean;
  /** Changes when an import is written to. */
  readonly stamp: string;
}

export interface ServedPaths {
  /** A folder that an agent records into, or a recording file. */
  data: string | undefined;
  /** Recordings that must exist. */
  recordings: readonly string[];
}

/** Returns each path once; the recording of the data folder comes first. */
export function servedFiles({ data, recordings }: ServedPaths): ServedFile[] {
  const found = data === undefined ? [] : foundIn(data);
  const files = [...found, ...recordings.map(namedFile)];
  return [...new Map(files.map((file) => [file.path, file])).values()];
}

/** The error for a place without recordings. */
export function nothingServed({ data = '.' }: ServedPaths): RecordingError {
  const path = join(data, 'recording.kreplay');
  return new RecordingError(
    'recording_missing',
    `there is no recording at ${path} yet: start the agent, it creates it; the daemon then opens it by itself`,
  );
}

export function namedFile(name: string): ServedFile {
  const path = normalize(name);
  const file = fileAt(path, 'named');
  if (file) return file;
  throw new RecordingError('recording_missing', `there is no file ${path}: give the path of a recording`);
}

function foundIn(data: string): ServedFile[] {
  const stats = statsOf(data);
  if (stats && !stats.isDirectory()) return [{ ...servedAs('live', normalize(data), stats), isForeign: true }];
  const live = fileAt(join(data, 'recording.kreplay'), 'live');
  const imported = importedPaths(join(data, 'imported')).map(importedFile);
  const damaged = namesIn(data)
    .filter(isSetAside)
    .map((name) => importedFile(join(data, name)));
  return [live, ...imported, ...damaged].filter((file) => file !== undefined);
}

/**
 * The paths are sorted, so their order is stable. A name that begins with a dot belongs to a file still being written.
 */
function importedPaths(folder: string): string[] {
  return namesIn(folder)
    .filter((name) => name.endsWith('.kreplay') && !name.startsWith('.'))
    .map((name) => join(folder, name));
}

function namesIn(folder: string): string[] {
  if (!statsOf(folder)) return [];
  return readable(folder, () => readdirSync(folder)).sort();
}

/** A dangling symbolic link is listed as well; it is not a file. */
function importedFile(path: string): ServedFile | undefined {
  const link = () => readable(path, () => lstatSync(path, { bigint: true, throwIfNoEntry: false }));
  const stats = statsOf(path) ?? link();
  return stats && servedAs('imported', path, stats);
}

function fileAt(path: string, source: ServedFile['source']): ServedFile | undefined {
  const stats = statsOf(path);
  return stats && servedAs(source, path, stats);
}

function servedAs(source: ServedFile['source'], path: string, stats: BigIntStats): ServedFile {
  const { dev, ino, size, mtimeNs, ctimeNs } = stats;
  // The log is part of the identity: a reader would continue with a removed log, while the agent that notices its
  // removal starts another one.
  const log = source === 'imported' ? undefined : statsOf(`${path}-wal`);
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

function statsOf(path: string): BigIntStats | undefined {
  return readable(path, () => statSync(path, { bigint: true, throwIfNoEntry: false }));
}

function readable<Result>(path: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw new RecordingError('recording_not_readable', `${path}: ${(error as Error).message}`, error);
  }
}
