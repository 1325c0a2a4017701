/** Tests names and kinds of files, which must match /proc/PID/fd. */
import { createFiles, describeFile, type FileDefinition } from '../../../agent/attribution/files.ts';
import { FILE_FLAGS } from '../../../bpf/schema/definitions.ts';
import type { FileKind } from '../../../bpf/schema/owner.ts';
import { createNames } from './names.ts';

const { FILE_DELETED, FILE_TRUNCATED } = FILE_FLAGS;
const EXT4 = 0xef53;
const SOCKFS = 0x534f434b;
const PIPEFS = 0x50495045;
const ANON_INODE_FS = 0x09041934;

function definition(fields: Partial<FileDefinition>): FileDefinition {
  return { file_id: 1, inode: 77, filesystem: EXT4, mode: 0o100644, flags: 0, ...fields };
}

test.each<[string, Partial<FileDefinition>, string[], string, FileKind]>([
  ['a regular file', {}, ['app.log', 'log', 'var'], '/var/log/app.log', 'regular'],
  ['a folder', { mode: 0o040755 }, ['log', 'var'], '/var/log', 'directory'],
  ['the root', { mode: 0o040755 }, [], '/', 'directory'],
  ['a terminal', { mode: 0o020620 }, ['0', 'pts', 'dev'], '/dev/pts/0', 'character_device'],
  ['a disk', { mode: 0o060660 }, ['vda', 'dev'], '/dev/vda', 'block_device'],
  ['a named pipe', { mode: 0o010644 }, ['fifo', 'tmp'], '/tmp/fifo', 'pipe'],
  ['a pipe', { filesystem: PIPEFS, mode: 0o010600 }, [''], 'pipe:[77]', 'pipe'],
  ['a socket', { filesystem: SOCKFS, mode: 0o140777 }, ['TCP'], 'socket:[77]', 'socket'],
  ['the file of a bound socket', { mode: 0o140755 }, ['run.sock', 'run'], '/run/run.sock', 'socket'],
  ['an eventfd', { filesystem: ANON_INODE_FS, mode: 0o600 }, ['[eventfd]'], 'anon_inode:[eventfd]', 'anonymous'],
  ['an anonymous inode without a name', { filesystem: ANON_INODE_FS, mode: 0 }, [], 'anon_inode:', 'anonymous'],
  ['a deleted file', { flags: FILE_DELETED }, ['f', 'tmp'], '/tmp/f (deleted)', 'regular'],
  ['a memory file', { flags: FILE_DELETED }, ['memfd:x'], '/memfd:x (deleted)', 'regular'],
  ['a file too deep for one definition', { flags: FILE_TRUNCATED }, ['f', 'd', 'c'], '.../c/d/f', 'regular'],
  ['both', { flags: FILE_DELETED | FILE_TRUNCATED }, ['f', 'd'], '.../d/f (deleted)', 'regular'],
  ['a name with a blank and a line feed', {}, ['a b\nc'], '/a b\nc', 'regular'],
  ['a mode without a file type', { mode: 0o644 }, ['f'], '/f', 'unknown'],
])('%s', (_, fields, names, path, kind) => {
  expect(describeFile(definition(fields), names)).toEqual({ path, kind });
});

test('a definition is found by its number, and an unknown number is file 0', () => {
  const names = createNames();
  const files = createFiles((path, kind) => names.intern(`${kind} ${path}`));
  files.define(definition({ file_id: 256 }), ['a']);
  files.define(definition({ file_id: 512, mode: 0o040755 }), ['b']);
  expect([256, 512].map((id) => names.text(files.internFile(id)))).toEqual(['regular /a', 'directory /b']);
  expect(files.internFile(768)).toBe(0);
  expect(files.internFile(0)).toBe(0);
});

test('only files that are asked for are written to the recording, and each once', () => {
  const interned: string[] = [];
  const files = createFiles((path) => interned.push(path));
  for (const [at, name] of ['left-out', 'kept', 'neither'].entries()) {
    files.define(definition({ file_id: at + 1 }), [name]);
  }
  expect([files.internFile(2), files.internFile(2)]).toEqual([1, 1]);
  expect(interned).toEqual(['/kept']);
});

test('files without recorded events do not fill the memory, and the latest ones are kept', () => {
  const interned: string[] = [];
  const files = createFiles((path) => interned.push(path));
  const FILES = 40_000;
  for (let id = 1; id <= FILES; id++) files.define(definition({ file_id: id }), [`name-${id}`]);
  expect([files.internFile(1), files.internFile(FILES)]).toEqual([0, 1]);
  expect(interned).toEqual([`/name-${FILES}`]);
  for (let id = 1; id <= FILES; id++) files.define(definition({ file_id: FILES + id }), ['x'.repeat(4000)]);
  expect(files.internFile(2 * FILES - 4500)).toBe(0);
  expect(files.internFile(2 * FILES - 4000)).toBe(2);
});
