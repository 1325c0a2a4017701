/** Builds the program that carries out labelled transactions; it runs alone or under a tool that traces it. */
import { join } from 'node:path';
import { z } from 'zod';
import type { BenchContext } from './bench.ts';
import { run } from './process.ts';

const SOURCE = join(import.meta.dirname, 'transaction_load.c');

/** The system calls that it makes. */
export const LOAD_SYSCALLS = ['write', 'pwrite64', 'writev'] as const;

/** Prefix of its folders: in memory, so that nothing reaches a disk. */
export const LOAD_FOLDER = '/dev/shm/kreplay-bench-';

const result = z.object({
  pids: z.array(z.int()),
  /** Writes of these processes that must be recorded. */
  events: z.int(),
  /** Writes that were made under a label. */
  labelled: z.int(),
  transactions: z.int(),
  /** Marker lines: further writes, which kreplay interprets instead of recording them. */
  markers: z.int(),
  elapsed_ns: z.int(),
  /** CPU time of the processes. */
  user_ns: z.number(),
  system_ns: z.number(),
});

export type TransactionLoad = z.infer<typeof result>;

/** Compiles the program and returns its path. */
export async function buildTransactionLoad({ buildFolder, signal }: BenchContext): Promise<string> {
  const program = join(buildFolder, 'transaction_load');
  await run(['gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-pthread', '-o', program, SOURCE], { signal });
  return program;
}

export function parseTransactionLoad(stdout: string): TransactionLoad {
  const line = stdout.split('\n').find((text) => text.startsWith('{'));
  return result.parse(JSON.parse(line ?? 'null'));
}
