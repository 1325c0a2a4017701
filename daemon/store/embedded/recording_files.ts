/**
 * Keeps the files that are served at present open as recordings. A file is opened again when another file replaces it.
 */
import { basename } from 'node:path';
import { RecordingError, type RecordingErrorCode } from '../../../agent/recording/format/errors.ts';
import { type FoundDamage, openReader, type RecordingReader } from '../../../agent/recording/read/reader.ts';
import { openRawId, type RawId } from '../../../agent/recording/write/committer.ts';
import { isSetAside } from '../../../agent/recording/write/set_aside.ts';
import { withFileErrors } from './failures.ts';
import {
  createNoRecordingError,
  findNamedFile,
  listAllServedFiles,
  type ServedFile,
  type ServedPaths,
} from './served_files.ts';

export interface OpenRecording {
  readonly reader: RecordingReader;
  readonly recordingId: string;
  readonly node: string;
  readonly file: ServedFile;
}

/** An import that cannot be read; the other recordings are served without it. */
export interface UnreadableImport {
  readonly path: string;
  readonly error: RecordingError;
  /** The import's node, if an earlier read determined it. */
  readonly node: string | undefined;
}

export interface LeftOutImport extends UnreadableImport {
  /** The `stamp` of the import's file. */
  readonly stamp: string;
}

/** Faults that were found while reading files, in a form that can be sent to another thread. */
export interface Findings {
  leftOut: (Omit<LeftOutImport, 'error'> & { code: RecordingErrorCode; message: string })[];
  damaged: { path: string; identity: string; damage: FoundDamage }[];
}

interface RecordingFiles {
  /**
   * Returns at least one recording, or throws. Recordings stay open until they are released, even if other files
   * replace them. An import that cannot be read is left out and listed by `listUnreadable`.
   */
  acquire(): readonly OpenRecording[];
  release(recordings: readonly OpenRecording[]): void;
  /**
   * Leaves out an import that turned out to be unreadable, until its file changes. Returns false if the file is not an
   * import.
   */
  leaveOut(file: ServedFile, error: RecordingError): boolean;
  /** Lists the imports that the last `acquire` left out. */
  listUnreadable(): LeftOutImport[];
  /** Returns the faults found in files so far. */
  findings(): Findings;
  /** Adopts the faults that another thread found, except for files that have changed since then. */
  adopt(findings: Findings): void;
  close(): void;
}

export type OnUnreadable = (found: UnreadableImport) => void;

interface OpenRecordingFile extends OpenRecording {
  readonly rawId: RawId;
}

interface SharedFile extends OpenRecordingFile {
  users: number;
  retired: boolean;
}

/** Codes of errors that occur again until the content of the file changes. */
const LASTING: readonly string[] = ['not_a_recording', 'unsupported_format', 'recording_corrupt'];

export function openRecordingFiles(places: ServedPaths, onUnreadable: OnUnreadable = () => {}): RecordingFiles {
  const byPath = new Map<string, SharedFile>();
  const leftOut = new Map<string, LeftOutImport>();

  /**
   * The files served in this pass of the event loop. They are cached, because an answer needs them several times and
   * looking them up is costly.
   */
  let lookedUp: readonly SharedFile[] | undefined;

  function acquire(): readonly SharedFile[] {
    if (!lookedUp) {
      lookedUp = lookUp();
      setImmediate(() => {
        lookedUp = undefined;
      }).unref();
    }
    for (const entry of lookedUp) entry.users++;
    return lookedUp;
  }

  function lookUp(): SharedFile[] {
    const files = listAllServedFiles(places);
    const served = new Set(files.map(findOrOpenEntry).filter((entry) => entry !== undefined));
    const paths = new Set(files.map(({ path }) => path));
    for (const path of leftOut.keys()) if (!paths.has(path)) leftOut.delete(path);
    for (const entry of byPath.values()) if (!served.has(entry)) retire(entry);
    if (served.size === 0) throw leftOut.values().next().value?.error ?? createNoRecordingError(places);
    return [...served];
  }

  function findOrOpenEntry(file: ServedFile): SharedFile | undefined {
    const known = byPath.get(file.path);
    // Equal identities mean the same file: as long as the old file is open, a new file cannot get the same inode.
    if (known?.file.identity === file.identity && isWhatItWas(known)) return known;
    const out = leftOut.get(file.path);
    if (out && out.stamp === file.stamp && LASTING.includes(out.error.code)) return undefined;
    const opened = openOrLeaveOut(file);
    if (known) retire(known);
    if (!opened) return undefined;
    leftOut.delete(file.path);
    const entry = { ...opened, users: 0, retired: false };
    byPath.set(file.path, entry);
    return entry;
  }

  function openOrLeaveOut(file: ServedFile): OpenRecordingFile | undefined {
    try {
      return open(file);
    } catch (error) {
      if (error instanceof RecordingError && leaveOut(file, error)) return undefined;
      throw error;
    }
  }

  function leaveOut(file: ServedFile, error: RecordingError): boolean {
    const { path, source, stamp } = file;
    if (source !== 'imported') return false;
    note({ path, error, stamp, node: undefined });
    return true;
  }

  function note({ path, error, stamp, node }: LeftOutImport): void {
    const known = byPath.get(path);
    const before = leftOut.get(path);
    const isSame = before?.stamp === stamp && before.error.code === error.code;
    const out = { path, error, stamp, node: known?.node ?? node ?? (isSame ? before.node : undefined) };
    leftOut.set(path, out);
    if (known) retire(known);
    if (!isSame) onUnreadable(out);
  }

  function retire(entry: SharedFile): void {
    if (entry.retired) return;
    lookedUp = undefined;
    byPath.delete(entry.file.path);
    entry.retired = true;
    if (entry.users === 0) close(entry);
  }

  return {
    acquire,
    release(recordings) {
      for (const entry of recordings as readonly SharedFile[]) {
        entry.users--;
        if (entry.retired && entry.users === 0) close(entry);
      }
    },
    leaveOut,
    findings: () => ({
      leftOut: [...leftOut.values()].map(({ error: { code, message }, ...one }) => ({ ...one, code, message })),
      damaged: [...byPath.values()].flatMap(({ file: { path, identity }, reader }) => {
        const damage = reader.damage();
        return damage ? [{ path, identity, damage }] : [];
      }),
    }),
    adopt(findings) {
      for (const { code, message, ...one } of findings.leftOut) {
        const known = byPath.get(one.path);
        if (!known || known.file.stamp === one.stamp) note({ ...one, error: new RecordingError(code, message) });
      }
      for (const { path, identity, damage } of findings.damaged) {
        const known = byPath.get(path);
        if (known?.file.identity === identity) known.reader.addDamage(damage);
      }
    },
    listUnreadable: () => [...leftOut.values()],
    close() {
      for (const entry of byPath.values()) retire(entry);
    },
  };
}

function close({ reader, rawId }: OpenRecordingFile): void {
  reader.close();
  rawId.close();
}

/**
 * Whether the open recording has not been replaced. A recording that cannot be read counts as replaced, because opening
 * it again reports the cause.
 */
function isWhatItWas({ reader, rawId, recordingId }: OpenRecordingFile): boolean {
  try {
    return !reader.isReplaced() && !rawId.isOther(recordingId);
  } catch {
    return false;
  }
}

/** Opens a recording; returns undefined for a file that an agent is just creating as a recording. */
function open(file: ServedFile): OpenRecordingFile | undefined {
  try {
    return withFileErrors(file, () => openRecording(file));
  } catch (error) {
    const beingMade = file.source === 'live' && error instanceof RecordingError && error.code === 'recording_missing';
    if (beingMade) return undefined;
    throw error;
  }
}

function openRecording(file: ServedFile): OpenRecordingFile {
  const { path, isFile, isForeign } = file;
  if (!isFile) throw new RecordingError('not_a_recording', `${path} is not a file: only --data takes a folder`);
  const reader = openReader(path, { isForeign, isDamaged: isSetAside(basename(path)) });
  const { recordingId, node } = reader;
  let rawId: RawId | undefined;
  try {
    rawId = openRawId(path);
    if (rawId.isOther(recordingId)) throw new RecordingError('recording_corrupt', describeOverwritten(path));
    return { reader, rawId, recordingId, node, file };
  } catch (error) {
    reader.close();
    rawId?.close();
    throw error;
  }
}

function describeOverwritten(path: string): string {
  return `${path} was overwritten in place, and ${path}-wal is of what was there: an agent that is at work removes it soon; else remove it`;
}

/** Throws the error of the first recording that cannot be read. */
export function checkRecordings(paths: readonly string[]): void {
  for (const file of paths.map(findNamedFile)) close(withFileErrors(file, () => openRecording(file)));
}
