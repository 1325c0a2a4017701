/** The program that writes: built, and run by itself or by a tool that traces it. */
import { join } from 'node:path';
import { z } from 'zod';
import type { BenchContext } from './bench.ts';
import { run } from './process.ts';

const SOURCE = join(import.meta.dirname, 'write_load.c');

const result = z.object({
  pid: z.int(),
  /** All that the process made, also before and after the timed ones. */
  writes: z.int(),
  /** Nanoseconds a write, over batches of 1000. */
  median_ns: z.number(),
  fastest_ns: z.number(),
  /** User time of the process. */
  user_ns: z.number(),
});

export type WriteLoad = z.infer<typeof result>;

/** Gives the compiled program. */
export async function buildWriteLoad({ buildFolder, signal }: BenchContext): Promise<string> {
  const program = join(buildFolder, 'write_load');
  await run(['gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-o', program, SOURCE], { signal });
  return program;
}

export function parseWriteLoad(stdout: string): WriteLoad {
  const line = stdout.split('\n').find((text) => text.startsWith('{'));
  return result.parse(JSON.parse(line ?? 'null'));
}
