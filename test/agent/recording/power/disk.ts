/**
 * Images of a folder as a disk may hold it at a loss of power, made from the calls of a process on its files: synced
 * writes are there; each of the others is there, is missing, or is torn into sectors, in any order.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';

const SECTOR_BYTES = 512;

type FileCall = { file: number } & (
  | { kind: 'write'; at: number; bytes: Buffer }
  | { kind: 'truncate'; size: number }
  /** Everything before the call with this index is on the disk from this call on; `isData`: by fdatasync. */
  | { kind: 'sync'; begun: number; isData: boolean }
);
type FolderCall =
  | { kind: 'link'; name: string; file: number }
  | { kind: 'unlink'; name: string }
  | { kind: 'sync_folder'; begun: number };
/** What the process said on its standard output. */
type Said = { kind: 'said'; text: string };

export type Call = FileCall | FolderCall | Said;

export interface Tracing {
  /** Resolves with the first line that the process says and `holds` accepts. */
  until(holds: (line: string) => boolean): Promise<void>;
  /** Kills the process, and returns what it did. */
  kill(): Promise<Call[]>;
}

const TRACED = 'openat,pwrite64,write,ftruncate,fsync,fdatasync,unlink';

/** Runs a program of Node under strace, with the list of its calls beside the folder. */
export function traced(program: readonly string[], folder: string): Tracing {
  const list = `${folder}.calls`;
  const options = ['-f', '-y', '-xx', '-s', '65536', '-e', `trace=${TRACED}`, '-e', 'signal=none', '-o', list];
  const child = spawn('strace', [...options, process.execPath, ...program], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'close');
  const lines: string[] = [];
  let look = () => {};
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    lines.push(...text.split('\n'));
    look();
  });
  return {
    until: (holds) =>
      new Promise((resolve, reject) => {
        look = () => lines.some(holds) && resolve();
        look();
        void ended.then(() => reject(new Error('the writer ended')));
      }),
    async kill() {
      const [, writer] = /^(\d+) /.exec(readFileSync(list, 'latin1')) ?? [];
      process.kill(Number(writer), 'SIGKILL');
      await ended;
      return callsIn(readFileSync(list, 'latin1'), folder);
    },
  };
}

/** A call that returns later is listed in two lines; a sync covers what was done before the first of them. */
export function callsIn(text: string, folder: string): Call[] {
  const calls: Call[] = [];
  const unfinished = new Map<string, { head: string; begun: number }>();
  /** Numbers of the files that have these names now: a name that is used again is another file. */
  const files = new Map<string, number>();
  let fileCount = 0;
  for (const line of text.split('\n')) {
    const [, thread, said] = /^(\d+) +(.*)$/.exec(line) ?? [];
    if (said === undefined) continue;
    if (said.endsWith('<unfinished ...>')) {
      unfinished.set(thread!, { head: said.slice(0, -'<unfinished ...>'.length), begun: calls.length });
      continue;
    }
    const [, rest] = /^<\.\.\. \w+ resumed>(.*)$/.exec(said) ?? [];
    const { head, begun } = rest === undefined ? { head: '', begun: calls.length } : unfinished.get(thread!)!;
    const whole = head + (rest ?? said);
    if (/ = -1 /.test(whole)) continue;
    const call = callOf(whole, begun);
    if (call) calls.push(call);
  }
  return calls;

  function fileOf(path: string): number | undefined {
    const isOwn = path.startsWith(`${folder}/`) && !path.endsWith('-shm') && !path.includes('.lock');
    return isOwn ? files.get(basename(path)) : undefined;
  }

  function callOf(whole: string, begun: number): Call | undefined {
    const [, name, fdPath = '', args = ''] = /^(\w+)\((?:\d+|AT_FDCWD)?(?:<([^>]*)>)?,? ?(.*)\) += /.exec(whole) ?? [];
    const path = unescaped(fdPath).toString();
    if (name === 'write') {
      const [, hex] = /^"([^"]*)"/.exec(args) ?? [];
      const text = unescaped(hex ?? '').toString();
      return text.startsWith('committed ') ? { kind: 'said', text } : undefined;
    }
    if (name === 'openat') {
      const opened = unescaped(/^"([^"]*)"/.exec(args)?.[1] ?? '').toString();
      const isNew = args.includes('O_CREAT') && opened.startsWith(`${folder}/`) && !/-shm$|\.lock/.test(opened);
      if (!isNew || files.has(basename(opened))) return undefined;
      files.set(basename(opened), fileCount);
      return { kind: 'link', name: basename(opened), file: fileCount++ };
    }
    if (name === 'unlink') {
      const [, hex] = /"([^"]*)"/.exec(whole) ?? [];
      const gone = basename(unescaped(hex ?? '').toString());
      return files.delete(gone) ? { kind: 'unlink', name: gone } : undefined;
    }
    const isSync = name === 'fsync' || name === 'fdatasync';
    if (isSync && path === folder) return { kind: 'sync_folder', begun };
    const file = fileOf(path);
    if (file === undefined) return undefined;
    if (isSync) return { kind: 'sync', file, begun, isData: name === 'fdatasync' };
    if (name === 'ftruncate') return { kind: 'truncate', file, size: Number(args) };
    const [, hex = '', , at] = /^"([^"]*)", (\d+), (\d+)/.exec(args) ?? [];
    if (name === 'pwrite64') return { kind: 'write', file, at: Number(at), bytes: unescaped(hex) };
    return undefined;
  }
}

/** Text that strace wrote with -xx: each byte as \x12. Paths of descriptors are as they are. */
function unescaped(text: string): Buffer {
  return text.startsWith('\\x') ? Buffer.from(text.replaceAll('\\x', ''), 'hex') : Buffer.from(text, 'latin1');
}

/** How the calls that are not synced have reached the disk. */
export const WAYS = ['none', 'all', 'first', 'some', 'torn'] as const;
export type Way = (typeof WAYS)[number];

/** Writes the files into `folder` as a disk may hold them when power is lost behind `calls`. */
export function writeImage(folder: string, calls: readonly Call[], way: Way, random: () => number): void {
  const syncedUntil = new Map<number | 'folder', number>();
  for (const call of calls) {
    if (call.kind === 'sync') syncedUntil.set(call.file, call.begun);
    if (call.kind === 'sync_folder') syncedUntil.set('folder', call.begun);
  }
  const keptUntil = new Map<number | 'folder', number>();
  const contents = new Map<number, Buffer>();
  const names = new Map<string, number>();
  for (const [i, call] of calls.entries()) {
    if (call.kind === 'said' || call.kind === 'sync' || call.kind === 'sync_folder') continue;
    const place = 'file' in call && call.kind !== 'link' ? call.file : 'folder';
    const isSynced = i < (syncedUntil.get(place) ?? 0);
    if (isSynced || reachesDisk(place, i)) apply(call, !isSynced && way === 'torn');
  }
  for (const [name, file] of names) writeFileSync(join(folder, name), contents.get(file) ?? '');

  function reachesDisk(place: number | 'folder', index: number): boolean {
    if (way === 'none') return false;
    if (way === 'all') return true;
    if (way === 'some') return random() < 0.6;
    if (way === 'torn') return random() < 0.9;
    const from = syncedUntil.get(place) ?? 0;
    if (!keptUntil.has(place)) keptUntil.set(place, from + random() * (calls.length - from));
    return index < keptUntil.get(place)!;
  }

  function apply(call: Exclude<Call, Said | { kind: 'sync' | 'sync_folder' }>, isTorn: boolean): void {
    if (call.kind === 'link') names.set(call.name, call.file);
    else if (call.kind === 'unlink') names.delete(call.name);
    else if (call.kind === 'truncate') contents.set(call.file, sized(contents.get(call.file), call.size));
    else {
      const { file, at, bytes } = call;
      for (let from = 0; from < bytes.length; ) {
        const to = Math.min(bytes.length, from + SECTOR_BYTES - ((at + from) % SECTOR_BYTES));
        if (!isTorn || random() < 0.7) put(file, at + from, bytes.subarray(from, to));
        from = to;
      }
    }
  }

  function put(file: number, at: number, bytes: Buffer): void {
    const known = contents.get(file) ?? Buffer.alloc(0);
    const next = known.length < at + bytes.length ? sized(known, at + bytes.length) : known;
    bytes.copy(next, at);
    contents.set(file, next);
  }
}

function sized(bytes: Buffer | undefined, size: number): Buffer {
  const next = Buffer.alloc(size);
  bytes?.copy(next);
  return next;
}
