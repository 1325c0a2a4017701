/** Builds and runs the program that sleeps to deadlines, and that plays and views sessions. */
import { join } from 'node:path';
import { z } from 'zod';
import type { BenchContext } from './bench.ts';
import { run } from './process.ts';

const SOURCE = join(import.meta.dirname, 'replay_load.c');

const percentiles = z.object({ p50: z.number(), p99: z.number(), max: z.number() });
const sleepResult = z.object({ lateness_ns: percentiles, cpu_ns: z.number(), elapsed_ns: z.number() });

const sendResult = sleepResult.extend({ received_ns: percentiles });

/** Times of one event, on the monotonic clock. */
const moment = z.object({
  offset_ns: z.number(),
  due_ns: z.number(),
  lateness_ns: z.number(),
  received_ns: z.number(),
});
const viewResult = z.object({
  /** Lateness as the events report it. */
  lateness_ns: percentiles,
  /** Time from an event's deadline to its receipt, on the viewer's own clock. */
  received_ns: percentiles,
  sessions: z.array(z.object({ events: z.int(), first: moment, last: moment })),
});

export type SleepResult = z.infer<typeof sleepResult>;
export type SendResult = z.infer<typeof sendResult>;
export type ViewResult = z.infer<typeof viewResult>;

export interface ReplayLoad {
  sleep(cpu: number, periodNs: number, count: number): Promise<SleepResult>;
  /** The same, and sends a frame's bytes at each deadline to a process on another CPU. */
  send(cpu: number, periodNs: number, count: number, viewerCpu: number): Promise<SendResult>;
  /** Plays the sessions and returns the measurements once all have ended. */
  view(cpu: number, socketPath: string, sessionIds: readonly string[]): Promise<ViewResult>;
}

export async function buildReplayLoad({ buildFolder, signal }: BenchContext): Promise<ReplayLoad> {
  const program = join(buildFolder, 'replay_load');
  await run(['gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-o', program, SOURCE], { signal });
  const told = async (...args: (string | number)[]) => {
    const { stdout } = await run([program, ...args.map(String)], { signal });
    return JSON.parse(stdout);
  };
  return {
    sleep: async (cpu, periodNs, count) => sleepResult.parse(await told('sleep', cpu, periodNs, count)),
    send: async (cpu, periodNs, count, viewerCpu) =>
      sendResult.parse(await told('send', cpu, periodNs, count, viewerCpu)),
    view: async (cpu, socketPath, sessionIds) => viewResult.parse(await told('view', cpu, socketPath, ...sessionIds)),
  };
}
