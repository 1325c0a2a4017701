/** The program that `kreplay run` runs: built, and run by itself or behind what intercepts its calls. */
import { join } from 'node:path';
import { z } from 'zod';
import type { BenchContext } from './bench.ts';
import { run } from './process.ts';

const SOURCE = join(import.meta.dirname, 'run_load.c');

/** As its threads are named, and the calls that they plan are made: run_load.c. */
export const LOAD_COMM = 'run_load';
export const LOAD_FILE = '/dev/null';
export const WRITE_BYTES = 64;

/** Nanoseconds a call are over batches, those from the first call to the last over all threads. */
const calls = z.object({ calls: z.int(), median_ns: z.number(), elapsed_ns: z.number() });
/** How far from its length a wait was, either way; the earliest is below 0 if it was too short. */
const errors = z.object({ p50: z.number(), p99: z.number(), max: z.number(), earliest: z.number() });
const waits = z.array(z.object({ length_ns: z.number(), write_ns: errors, sleep_ns: errors }));

export type Calls = z.infer<typeof calls>;
export type WaitErrors = z.infer<typeof errors>;
export type Waits = z.infer<typeof waits>;

export type LoadCall = 'write' | 'write_elsewhere' | 'getppid';

/** The words in front of a command that make something run it. */
export type Before = readonly string[];

export interface RunLoad {
  call(before: Before, call: LoadCall, threads: number, count: number): Promise<Calls>;
  wait(before: Before, cycles: number, lengthsNs: readonly number[]): Promise<Waits>;
  /** Nanoseconds until the command is there that `before` starts. */
  start(before: Before): Promise<number>;
}

export async function buildRunLoad({ buildFolder, signal }: BenchContext): Promise<RunLoad> {
  const program = join(buildFolder, LOAD_COMM);
  await run(['gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-pthread', '-o', program, SOURCE], { signal });
  const told = async (before: Before, ...args: (string | number)[]) => {
    const { stdout } = await run([...before, program, ...args.map(String)], { signal });
    return JSON.parse(stdout);
  };
  /** Takes over from the shell that asked for the time: nothing else is started in between. */
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
