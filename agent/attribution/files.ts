/** Resolves the file ids in events to paths and kinds. */
import { FILE_FLAGS } from '../../bpf/schema/definitions.ts';
import type { FileKind } from '../../bpf/schema/owner.ts';
import { createReferenceTable } from './reference_table.ts';

/**
 * Maximum number of files in the table. Every second, the kernel side defines all files in use again. So a file that
 * was dropped returns to the table, with a new id in the recording.
 */
const FILES_MAX = 1 << 15;
/**
 * Maximum total length of the paths of files that no kept event has used. Beyond it, the oldest files are forgotten and
 * become unknown.
 */
const UNUSED_CHARACTERS_MAX = 1 << 24;

/** Values from include/uapi/linux/magic.h. */
const SOCKFS_MAGIC = 0x534f434b;
const PIPEFS_MAGIC = 0x50495045;
const ANON_INODE_FS_MAGIC = 0x09041934;

const S_IFMT = 0o170000;
const KIND_BY_MODE = new Map<number, FileKind>([
  [0o100000, 'regular'],
  [0o040000, 'directory'],
  [0o020000, 'character_device'],
  [0o060000, 'block_device'],
  [0o010000, 'pipe'],
  [0o140000, 'socket'],
]);

export interface FileDefinition {
  file_id: number;
  inode: number;
  filesystem: number;
  mode: number;
  flags: number;
}

export interface Files {
  /** Adds a file. `names` are the components of its path, leaf first. */
  define(definition: FileDefinition, names: readonly string[]): void;
  /** Returns the file's id in the recording; 0: unknown. */
  internFile(fileId: number): number;
}

/**
 * Creates the table of files. A file is written to the recording only with its first kept event, so a file whose events
 * are all filtered out leaves no name.
 */
export function createFiles(intern: (path: string, kind: FileKind) => number): Files {
  const files = createReferenceTable<number>(FILES_MAX);
  const unused = createUnusedFiles();
  return {
    define(definition, names) {
      unused.add(definition.file_id, describeFile(definition, names));
    },
    internFile(fileId) {
      const number = files.get(fileId);
      if (number !== undefined) return number;
      const file = unused.take(fileId);
      if (!file) return 0;
      const interned = intern(file.path, file.kind);
      files.set(fileId, interned);
      return interned;
    },
  };
}

interface DescribedFile {
  path: string;
  kind: FileKind;
}

function createUnusedFiles() {
  const files = new Map<number, DescribedFile>();
  let characters = 0;

  function take(fileId: number): DescribedFile | undefined {
    const file = files.get(fileId);
    if (file) {
      files.delete(fileId);
      characters -= file.path.length;
    }
    return file;
  }

  return {
    take,
    add(fileId: number, file: DescribedFile): void {
      files.set(fileId, file);
      characters += file.path.length;
      for (const oldest of files.keys()) {
        if (files.size <= FILES_MAX && characters <= UNUSED_CHARACTERS_MAX) return;
        take(oldest);
      }
    },
  };
}

/** Returns the file's kind, and its path in the format of the links in /proc/PID/fd. */
export function describeFile(
  { inode, filesystem, mode, flags }: FileDefinition,
  names: readonly string[],
): DescribedFile {
  if (filesystem === SOCKFS_MAGIC) return { path: `socket:[${inode}]`, kind: 'socket' };
  if (filesystem === PIPEFS_MAGIC) return { path: `pipe:[${inode}]`, kind: 'pipe' };
  if (filesystem === ANON_INODE_FS_MAGIC) return { path: `anon_inode:${names[0] ?? ''}`, kind: 'anonymous' };
  const front = flags & FILE_FLAGS.FILE_TRUNCATED ? '...' : '';
  const end = flags & FILE_FLAGS.FILE_DELETED ? ' (deleted)' : '';
  return {
    path: `${front}/${names.toReversed().join('/')}${end}`,
    kind: KIND_BY_MODE.get(mode & S_IFMT) ?? 'unknown',
  };
}
