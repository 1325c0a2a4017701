/** Programs that tests compile: one that was compiled from the same sources, by any suite, is not compiled again. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';

const FOLDER = resolve(import.meta.dirname, '../../build/test');

/**
 * Returns the path of what the compiler makes of these words, to which it adds where to write. `depends` are the sources
 * and what they include. Suites may compile the same one at once.
 */
export function compiled(name: string, compiler: string, words: readonly string[], depends: readonly string[]): string {
  const hash = createHash('sha256').update([compiler, ...words].join('\0'));
  for (const file of depends) hash.update(`\0${file}\0`).update(readFileSync(file));
  const program = join(FOLDER, hash.digest('hex').slice(0, 16), name);
  if (existsSync(program)) return program;
  mkdirSync(dirname(program), { recursive: true });
  const unfinished = `${program}.${process.pid}`;
  execFileSync(compiler, [...words, '-o', unfinished]);
  renameSync(unfinished, program);
  return program;
}

/** C sources and headers in and below a folder. */
export function sourcesIn(folder: string): string[] {
  return globSync('**/*.{c,cc,h}', { cwd: folder })
    .filter((name) => !basename(name).startsWith('.'))
    .sort()
    .map((name) => join(folder, name));
}
