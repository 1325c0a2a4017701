/** Stages the files of a package in a folder, with modes and times that are the same in every build. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';

export interface Tree {
  root: string;
  write(path: string, content: string | Uint8Array, mode?: number): void;
  copy(from: string, path: string, mode?: number): void;
  link(target: string, path: string): void;
  addFolder(path: string): void;
  /** Removes debugging information from a binary. */
  strip(path: string): void;
}

export function createTree(root: string): Tree {
  const place = (path: string) => {
    const full = join(root, path);
    mkdirSync(dirname(full), { recursive: true });
    return full;
  };
  return {
    root,
    write(path, content, mode = 0o644) {
      writeFileSync(place(path), content);
      chmodSync(join(root, path), mode);
    },
    copy(from, path, mode = 0o644) {
      copyFileSync(from, place(path));
      chmodSync(join(root, path), mode);
    },
    link: (target, path) => symlinkSync(target, place(path)),
    addFolder: (path) => void mkdirSync(join(root, path), { recursive: true }),
    strip: (path) => void execFileSync('strip', ['--strip-unneeded', '--remove-section=.comment', join(root, path)]),
  };
}

/** Yields every path below `folder`; a folder comes before its contents. */
export function* listPaths(folder: string, below = ''): Generator<string> {
  for (const { name, ...entry } of readEntries(join(folder, below))) {
    const path = join(below, name);
    yield path;
    if (entry.isFolder) yield* listPaths(folder, path);
  }
}

export function listFiles(folder: string): string[] {
  return [...listPaths(folder)].filter((path) => !lstatSync(join(folder, path)).isDirectory());
}

function readEntries(folder: string): { name: string; isFolder: boolean }[] {
  return readdirSync(folder, { withFileTypes: true })
    .map((entry) => ({ name: entry.name, isFolder: entry.isDirectory() }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/**
 * Sets the modes of folders, and the times of all files and folders. Must be called last, because adding a file to a
 * folder changes the folder's time.
 */
export function settle({ root }: Tree, epoch_s: number): void {
  const paths = [...listPaths(root)];
  for (const path of paths) if (lstatSync(join(root, path)).isDirectory()) chmodSync(join(root, path), 0o755);
  chmodSync(root, 0o755);
  for (const path of [...paths.reverse(), '.']) lutimesSync(join(root, path), epoch_s, epoch_s);
}

/** Returns the checksums of all files in the format of md5sum(1), for dpkg --verify. */
export function computeMd5Sums(tree: Tree): string {
  return listFiles(tree.root)
    .filter((path) => lstatSync(join(tree.root, path)).isFile())
    .map(
      (path) =>
        `${createHash('md5')
          .update(readFileSync(join(tree.root, path)))
          .digest('hex')}  ${path}\n`,
    )
    .join('');
}

/**
 * Returns the value of Debian's field `Installed-Size`. Each file is rounded up to whole KiB, and everything else
 * counts as one KiB.
 */
export function computeSizeKiB({ root }: Tree): number {
  return [...listPaths(root)].reduce((sum, path) => {
    const facts = lstatSync(join(root, path));
    return sum + (facts.isFile() ? Math.ceil(facts.size / 1024) : 1);
  }, 0);
}
