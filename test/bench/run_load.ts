/** Builds the program that `kreplay run` runs, and runs it alone or under what intercepts its calls. */
import { join } from 'node:path';
import { z } from 'zod';
import type { BenchContext } from './bench.ts';
import { run } from './process.ts';

const SOURCE = join(import.meta.dirname, 'run_load.c');

/** These three match run_load.c: name of its threads, file and size of the planned calls. */
export const LOAD_COMM = 'run_load';
export const LOAD_FILE = '/dev/null';
export const WRITE_BYTES = 64;

/**
 * The median is in nanoseconds per call, over batches; `elapsed_ns` is from the first call to the last over all
 * threads.
 */
const calls = z.object({ calls: z.int(), median_ns: z.number(), elapsed_ns: z.number() });
/** Absolute difference of a wait to its length; `earliest` is signed, and below 0 if a wait was too short. */
const errors = z.object({ p50: z.number(), p99: z.number(), max: z.number(), earliest: z.number() });
const waits = z.array(z.object({ length_ns: z.number(), write_ns: errors, sleep_ns: errors }));

export type Calls = z.infer<typeof calls>;
export type WaitErrors = z.infer<typeof errors>;
export type Waits = z.infer<typeof waits>;

export type LoadCall = 'write' | 'write_elsewhere' | 'getppid';

/** Words to put in front of a command so that something else runs it. */
export type Before = readonly string[];

export interface RunLoad {
  call(before: Before, call: LoadCall, threads: number, count: number): Promise<Calls>;
  wait(before: Before, cycles: number, lengthsNs: readonly number[]): Promise<Waits>;
  /** Nanoseconds until the command that `before` runs has started. */
  start(before: Before): Promise<number>;
}

export async function buildRunLoad({ buildFolder, signal }: BenchContext): Promise<RunLoad> {
  const program = join(buildFolder, LOAD_COMM);
  await run(['gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-pthread', '-o', program, SOURCE], { signal });
  const told = async (before: Before, ...args: (string | number)[]) => {
    const { stdout } = await run([...before, program, ...args.map(String)], { signal });
    return JSON.parse(stdout);
  };
  /** `exec` replaces the shell that printed the time: no other process is started in between. */
  const clocks = ['sh', '-c', '"$0" clock; exec "$@"', program];
  return {
    call: async (before, call, threads, count) => calls.parse(await told(before, call, threads, count)),
    wait: async (before, cycles, lengthsNs) => waits.parse(await told(before, 'waits', cycles, ...lengthsNs)),
    async start(before) {
      const { stdout } = await run([...clocks, ...before, program, 'clock'], { signal });
      const [from, to] = stdout.trim().split('\n').map(Number) as [number, number];
      return to - from;
    },
  };
}
