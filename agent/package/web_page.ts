/**
 * `node agent/package/web_page.ts FOLDER`: bundles daemon/page for browsers. Every file but index.html is named by its
 * content, so that a browser may keep it, and lies beside a compressed copy. inputs.json lists what was bundled.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, extname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { type BuildOptions, build } from 'esbuild';

const SOURCES = join(import.meta.dirname, '../../daemon/page');
/** Where the daemon serves the files. */
const PLACE = '/page/';
const INDEX = 'index.html';
/** The oldest browsers that can parse integers exactly: `context.source` of a reviver. */
const TARGET = ['chrome114', 'firefox135', 'safari18.4'];
const OPTIONS = {
  ...{ bundle: true, minify: true, write: false, metafile: true, format: 'esm', target: TARGET },
  ...{ jsx: 'automatic', jsxImportSource: 'preact', charset: 'utf8', legalComments: 'none', logLevel: 'warning' },
} as const satisfies BuildOptions;

/** Bundles the page into an empty folder. */
export async function writePage(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const inputs = new Set<string>();
  const bundled = async (entry: string, define: Record<string, string> = {}) => {
    const { outputFiles, metafile } = await build({ ...OPTIONS, define, entryPoints: [join(SOURCES, entry)] });
    for (const input of Object.keys(metafile.inputs)) inputs.add(input);
    return write(folder, entry.replace(/\.tsx?$/, '.js'), outputFiles[0]!.contents);
  };
  const worker = await bundled('worker.ts');
  const page = await bundled('page.tsx', { WORKER_ADDRESS: JSON.stringify(worker) });
  const style = await bundled('style.css');
  const icon = write(folder, 'icon.svg', readFileSync(join(SOURCES, 'icon.svg')));
  const addresses: Record<string, string> = { page, style, icon };
  const index = readFileSync(join(SOURCES, INDEX), 'utf8').replaceAll(/\{(\w+)\}/g, (_, name) => addresses[name]!);
  writeWithCopy(folder, INDEX, Buffer.from(index));
  writeFileSync(join(folder, 'inputs.json'), `${JSON.stringify([...inputs].sort(), null, 2)}\n`);
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
  writeFileSync(join(folder, `${name}.gz`), gzipSync(content, { level: 9 }));
}

if (import.meta.main) await writePage(process.argv[2]!);
