/** Builds and parses the program that repeats one call; it runs alone or under a tool that traces it. */
import { join } from 'node:path';
import { z } from 'zod';
import type { BenchContext } from './bench.ts';
import { run } from './process.ts';

const SOURCE = join(import.meta.dirname, 'call_load.c');

const result = z
  .object({
    pid: z.int(),
    calls: z.int(),
    /** Writes of the process besides the timed calls, before and after them. */
    untimed_writes: z.int(),
    /** Nanoseconds per call, over batches. */
    median_ns: z.number(),
    fastest_ns: z.number(),
    /** User time of the process. */
    user_ns: z.number(),
  })
  /** `writes` is the number of all writes of the process, if the call is a write. */
  .transform((load) => ({ ...load, writes: load.calls + load.untimed_writes }));

export type CallLoad = z.infer<typeof result>;

/** The calls of call_load.c. */
export type Call = 'write' | 'labelled_write' | 'getppid' | 'read' | 'serve' | 'serve_request' | 'dirty_page' | 'exec';

/** Compiles the program and returns a function that makes its command line. */
export async function buildCallLoad({ buildFolder, folder, loadCpu, signal }: BenchContext) {
  const program = join(buildFolder, 'call_load');
  await run(['gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-o', program, SOURCE], { signal });
  return (call: Call, seconds: number) => [program, call, String(loadCpu), String(seconds), folder];
}

export function parseCallLoad(stdout: string): CallLoad {
  const line = stdout.split('\n').find((text) => text.startsWith('{'));
  return result.parse(JSON.parse(line ?? 'null'));
}
