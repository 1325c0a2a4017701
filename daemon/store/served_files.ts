/** The files that are served, as they are just now: an agent may not have begun, imports come and go. */
import { type BigIntStats, lstatSync, readdirSync, statSync } from 'node:fs';
import { join, normalize } from 'node:path';
import { RecordingError } from '../../agent/recording/format/errors.ts';
import { isRecorded } from '../../agent/recording/write/lock.ts';
import { isSetAside } from '../../agent/recording/write/set_aside.ts';

export interface ServedFile {
  readonly path: string;
  /** Of the file that has this path now, and of its log or, when nobody writes it, its content. */
  readonly identity: string;
  readonly isFile: boolean;
  /** How it came to be served: it was named, an agent records into it, or it was put into the folder of imports. */
  readonly source: 'named' | 'live' | 'imported';
  /** A stranger may have made it: only what an agent records into a data folder is its own. */
  readonly isForeign: boolean;
  /** Changes when an import is written to. */
  readonly stamp: string;
}

export interface ServedPaths {
  /** A folder that an agent records into, or a recording. */
  data: string | undefined;
  /** Recordings that have to be there. */
  recordings: readonly string[];
}

/** Each path once; the recording of the data folder is first. */
export function servedFiles({ data, recordings }: ServedPaths): ServedFile[] {
  const found = data === undefined ? [] : foundIn(data);
  const files = [...found, ...recordings.map(namedFile)];
  return [...new Map(files.map((file) => [file.path, file])).values()];
}

/** What to say when nothing is there. */
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

/** In an order that stays. A name that begins with a dot is of a file that is still being written. */
function importedPaths(folder: string): string[] {
  return namesIn(folder)
    .filter((name) => name.endsWith('.kreplay') && !name.startsWith('.'))
    .map((name) => join(folder, name));
}

function namesIn(folder: string): string[] {
  if (!statsOf(folder)) return [];
  return readable(folder, () => readdirSync(folder)).sort();
}

/** A link that leads nowhere is there as well, and is no file. */
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
  // A reader would go on with a log that was removed, and an agent that notices it begins another one.
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
