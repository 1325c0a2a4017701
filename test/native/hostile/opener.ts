/**
 * Opens mutated object files, and loads those that open. Arguments: FILE STATUS FROM TO [load], where FROM and TO are
 * seeds. The status file contains the current seed, so that the parent can report it after a crash. Errors are counted
 * by code.
 */
import { openSync, readFileSync, writeSync } from 'node:fs';
import { BpfObject } from 'libbpf-ts';
import { mutated, mutationOf, regionsOf } from './mutations.ts';

/** The kernel allocates as much as a map requests, so objects with larger maps are not loaded. */
const MAPS_BYTES_MAX = 64 << 20;

const [file, status, from, to, load] = process.argv.slice(2) as [string, string, string, string, string];
const original = new Uint8Array(readFileSync(file));
const regions = regionsOf(original);
const at = openSync(status, 'w');
const codes: Record<string, number> = {};

for (let seed = Number(from); seed < Number(to); seed++) {
  writeSync(at, String(seed).padEnd(12), 0);
  const code = codeOf(() => use(mutated(original, regions, mutationOf(seed))));
  codes[code] = (codes[code] ?? 0) + 1;
}
process.stdout.write(`${JSON.stringify(codes)}\n`);

function use(bytes: Uint8Array): void {
  const object = BpfObject.open(bytes, { name: 'hostile' });
  try {
    const sizes = object.maps.map(({ maxEntries, keySize, valueSize }) => maxEntries * (keySize + valueSize + 64));
    for (const { name } of object.variables) codeOf(() => object.setReadOnly(name, 1));
    if (load !== 'load' || sizes.reduce((sum, size) => sum + size, 0) > MAPS_BYTES_MAX) return;
    object.load();
    object.programStats();
  } finally {
    object.close();
  }
}

function codeOf(work: () => void): string {
  try {
    work();
    return 'none';
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    // An error without a code is not one of the addon's.
    if (code === undefined) throw error;
    if (message === '') throw new Error(`an error without a message: ${code}`);
    return code;
  }
}
