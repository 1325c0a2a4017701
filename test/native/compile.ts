import { resolve } from 'node:path';
import { compiled } from './compiled.ts';

const sources = import.meta.dirname;
export const root = resolve(sources, '../..');

/** Compiles test/native/NAME.bpf.c and returns the path of the object. */
export function compileBpf(name: string): string {
  const include = `/usr/include/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`;
  const source = resolve(sources, `${name}.bpf.c`);
  const words = ['-g', '-O2', '-target', 'bpf', '-Wall', '-Werror', '-I', include, '-c', source];
  return compiled(`${name}.bpf.o`, 'clang', words, [source]);
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
