/** The program that carries out labelled transactions: built, and run by itself or by a tool that traces it. */
import { join } from 'node:path';
import { z } from 'zod';
import type { BenchContext } from './bench.ts';
import { run } from './process.ts';

const SOURCE = join(import.meta.dirname, 'transaction_load.c');

/** The calls that it makes. */
export const LOAD_SYSCALLS = ['write', 'pwrite64', 'writev'] as const;

/** Where its files begin: in memory, nothing of them reaches a disk. */
export const LOAD_FOLDER = '/dev/shm/kreplay-bench-';

const result = z.object({
  pids: z.array(z.int()),
  /** Writes of these processes that are to be recorded, all that there are. */
  events: z.int(),
  /** Those that were made under a label. */
  labelled: z.int(),
  transactions: z.int(),
  /** Marker lines: more writes, which kreplay takes for what they say. */
  markers: z.int(),
  elapsed_ns: z.int(),
  /** CPU time of the processes. */
  user_ns: z.number(),
  system_ns: z.number(),
});

export type TransactionLoad = z.infer<typeof result>;

/** Gives the compiled program. */
export async function buildTransactionLoad({ buildFolder, signal }: BenchContext): Promise<string> {
  const program = join(buildFolder, 'transaction_load');
  await run(['gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-pthread', '-o', program, SOURCE], { signal });
  return program;
}

export function parseTransactionLoad(stdout: string): TransactionLoad {
  const line = stdout.split('\n').find((text) => text.startsWith('{'));
  return result.parse(JSON.parse(line ?? 'null'));
}
