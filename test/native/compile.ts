import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync } from 'node:fs';
import { resolve } from 'node:path';

const sources = import.meta.dirname;
export const root = resolve(sources, '../..');
const objects = resolve(root, 'build/test');

/**
 * Compiles test/native/NAME.bpf.c and returns the path of the object. Jest's workers may compile the same one at once.
 */
export function compileBpf(name: string): string {
  mkdirSync(objects, { recursive: true });
  const object = resolve(objects, `${name}.bpf.o`);
  const unfinished = `${object}.${process.pid}`;
  const include = `/usr/include/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`;
  execFileSync('clang', [
    ...['-g', '-O2', '-target', 'bpf', '-Wall', '-Werror', '-I', include],
    ...['-c', resolve(sources, `${name}.bpf.c`), '-o', unfinished],
  ]);
  renameSync(unfinished, object);
  return object;
}

/** Returns what `run` throws, for checks by its code: Jest's realms have different Error classes. */
export function thrownBy(run: () => unknown): { code?: string; message?: string; [key: string]: unknown } {
  try {
    run();
  } catch (error) {
    return error as { code?: string; message?: string };
  }
  return {};
}

export function u32(...values: number[]): Uint8Array {
  return new Uint8Array(Uint32Array.from(values).buffer);
}

export function u64(...values: bigint[]): Uint8Array {
  return new Uint8Array(BigUint64Array.from(values).buffer);
}
