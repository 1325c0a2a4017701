/**
 * `node daemon/package/web_page.ts FOLDER`: bundles daemon/page for browsers. The name of each served file except
 * index.html contains a hash of its content, so that browsers can cache the file. Each served file has a compressed
 * copy. inputs.json, which is not served, lists the bundled sources.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { minify } from '@swc/core';
import { type BuildOptions, build } from 'esbuild';

const SOURCES = join(import.meta.dirname, '../page');
/**
 * Path of the bundled files relative to the page. It is relative because a proxy may serve the page below another path.
 */
const PLACE = 'page/';
const INDEX = 'index.html';
/**
 * The oldest supported browsers. Their JSON.parse passes `context.source` to revivers, which the page needs to parse
 * integers exactly.
 */
const TARGET = ['chrome114', 'firefox135', 'safari18.4'];
const ENTRIES = ['page.tsx', 'worker.ts'];
/**
 * Placeholder in the page's script for the address of the worker's script, which is known only after the worker's
 * script is written.
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
 * Options for a second minifier that makes esbuild's output 5 % smaller. `unsafe_arrows` converts functions without
 * `this` to arrow functions, which is safe because nothing calls `new` on them.
 */
const MINIFIED = {
  module: true,
  ecma: 2022,
  compress: { passes: 3, ecma: 2022, unsafe_arrows: true },
  mangle: true,
} as const;

/**
 * Bundles the page into `folder`, which is emptied first. Code that the page shares with its worker is in a separate
 * file, so that browsers load it only once.
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

/** Writes a file whose name contains a hash of its content; returns its address. */
function write(folder: string, name: string, content: Uint8Array): string {
  const digest = createHash('sha256').update(content).digest('hex').slice(0, 16);
  const ending = extname(name);
  const named = `${basename(name, ending)}-${digest}${ending}`;
  writeWithCopy(folder, named, content);
  return PLACE + named;
}

function writeWithCopy(folder: string, name: string, content: Uint8Array): void {
  writeFileSync(join(folder, name), content);
  // zopfli's gzip output is 3 % smaller than zlib's at its highest level.
  execFileSync('zopfli', [join(folder, name)]);
}

if (import.meta.main) await writePage(process.argv[2]!);
