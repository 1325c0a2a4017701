/** Files: the path and the kind behind the number that events carry. */
import { FILE_FLAGS } from '../../bpf/schema/definitions.ts';
import type { FileKind } from '../../bpf/schema/owner.ts';
import { createReferenceTable } from './reference_table.ts';

/** The kernel side defines a file that is in use anew each second, which also renews its number in the recording. */
const FILES_MAX = 1 << 15;

/** include/uapi/linux/magic.h */
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
  /** `names`: the path's names, leaf first. */
  define(definition: FileDefinition, names: readonly string[]): void;
  /** The recording's number of the file; 0: not known. */
  of(fileId: number): number;
}

export function createFiles(intern: (path: string, kind: FileKind) => number): Files {
  const files = createReferenceTable<number>(FILES_MAX);
  return {
    define(definition, names) {
      const { path, kind } = describeFile(definition, names);
      files.set(definition.file_id, intern(path, kind));
    },
    of: (fileId) => files.get(fileId) ?? 0,
  };
}

/** Named as /proc/PID/fd does. */
export function describeFile(
  { inode, filesystem, mode, flags }: FileDefinition,
  names: readonly string[],
): { path: string; kind: FileKind } {
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
