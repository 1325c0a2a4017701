/**
 * `node daemon/package/web_page.ts FOLDER`: bundles daemon/page for browsers. Every file but index.html has a name
 * derived from its content, so that a browser may cache it, and has a compressed copy next to it. inputs.json lists
 * what was bundled.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { minify } from '@swc/core';
import { type BuildOptions, build } from 'esbuild';

const SOURCES = join(import.meta.dirname, '../page');
/** Path of the served files, relative to the page, because a proxy may serve both under a path of its own. */
const PLACE = 'page/';
const INDEX = 'index.html';
/** The oldest browsers that can parse integers exactly, because their revivers receive `context.source`. */
const TARGET = ['chrome114', 'firefox135', 'safari18.4'];
const ENTRIES = ['page.tsx', 'worker.ts'];
/**
 * Placeholder in the page's script for the address of the worker's script. The address is known only when that script
 * has been written.
 */
const WORKER_ADDRESS = '{worker}';
const OPTIONS = {
  bundle: true,
  splitting: true,
  chunkNames: 'shared',
  minify: true,
  metafile: true,
  format: 'esm',
  target: TARGET,
  write: false,
  outdir: '.',
  define: { WORKER_ADDRESS: JSON.stringify(WORKER_ADDRESS) },
  jsx: 'automatic',
  jsxImportSource: 'preact',
  charset: 'utf8',
  legalComments: 'none',
  logLevel: 'warning',
} as const satisfies BuildOptions;
/**
 * Options for a second pass over esbuild's output, which makes it another 5 % smaller. `unsafe_arrows` is safe here,
 * because nothing calls `new` on a function that does not use `this`.
 */
const MINIFIED = {
  module: true,
  ecma: 2022,
  compress: { passes: 3, ecma: 2022, unsafe_arrows: true },
  mangle: true,
} as const;

/**
 * Bundles the page into an empty folder. Code that the page shares with its worker is in a separate file, so that a
 * browser loads it only once.
 */
export async function writePage(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const entryPoints = [...ENTRIES, 'style.css'].map((name) => join(SOURCES, name));
  const { outputFiles, metafile } = await build({ ...OPTIONS, entryPoints });
  const bundled = new Map(outputFiles.map(({ path, text }) => [basename(path), text]));
  const addresses: Record<string, string> = {
    icon: write(folder, 'icon.svg', readFileSync(join(SOURCES, 'icon.svg'))),
    style: write(folder, 'style.css', Buffer.from(bundled.get('style.css')!)),
  };
  for (const name of ['shared', 'worker', 'page'] as const) {
    const text = bundled.get(`${name}.js`)!.replace('./shared.js', () => `./${basename(addresses.shared!)}`);
    const { code } = await minify(
      text.replace(WORKER_ADDRESS, () => addresses.worker!),
      MINIFIED,
    );
    addresses[name] = write(folder, `${name}.js`, Buffer.from(code));
  }
  const index = readFileSync(join(SOURCES, INDEX), 'utf8').replaceAll(/\{(\w+)\}/g, (_, name) => addresses[name]!);
  writeWithCopy(folder, INDEX, Buffer.from(index));
  const inputs = Object.keys(metafile.inputs).sort();
  writeFileSync(join(folder, 'inputs.json'), `${JSON.stringify(inputs, null, 2)}\n`);
}

/** Writes a file under a name made from its content, and returns its address. */
function write(folder: string, name: string, content: Uint8Array): string {
  const digest = createHash('sha256').update(content).digest('hex').slice(0, 16);
  const ending = extname(name);
  const named = `${basename(name, ending)}-${digest}${ending}`;
  writeWithCopy(folder, named, content);
  return PLACE + named;
}

function writeWithCopy(folder: string, name: string, content: Uint8Array): void {
  writeFileSync(join(folder, name), content);
  // zopfli's output is 3 % smaller than that of zlib's highest level, in the same format.
  execFileSync('zopfli', [join(folder, name)]);
}

if (import.meta.main) await writePage(process.argv[2]!);
