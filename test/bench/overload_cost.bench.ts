/**
 * Measures what a write costs the traced process while the agent reads nothing, and no definition has room: its new
 * files, and a program with 200 variables, cannot be named then.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import type { BenchContext, BenchResult } from './bench.ts';
import { KREPLAY, run as runProgram, start } from './process.ts';
import { interleaved } from './rounds.ts';
import { median } from './statistics.ts';
import { nanoseconds, percent } from './table.ts';

export const summary =
  'nanoseconds of a write to a file on tmpfs while the agent is stopped and definitions have no room';
export const unit = 'ns';

const ROUNDS = 7;
const FILES = 60_000;
const WRITES = 400_000;
const SHARE_OF_DRAINED_MAX = 1.2;

const AGENTS = ['untraced', 'drained', 'stopped'] as const;
type Agent = (typeof AGENTS)[number];

const timed = z.object({
  /** Median of the writes to new files. */
  new_file_ns: z.number(),
  /** Median of batches of writes to the last of them. */
  same_file_ns: z.number(),
});
type Timed = z.infer<typeof timed>;

export async function run({ buildFolder, loadCpu, signal, progress }: BenchContext): Promise<BenchResult> {
  const program = join(buildFolder, 'overload_load');
  const source = join(import.meta.dirname, 'overload_load.c');
  await runProgram(['gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-o', program, source], { signal });

  async function timeUnder(agent: Agent, round: number): Promise<Timed> {
    progress(`round ${round + 1} of ${ROUNDS}: ${agent}`);
    // A write to memory: nothing else in it depends on the machine.
    const folder = mkdtempSync('/dev/shm/kreplay-bench-');
    const load = [program, String(loadCpu), folder, String(FILES), String(WRITES)];
    const running =
      agent === 'untraced' ? undefined : start([...KREPLAY, 'agent', '--data', folder], { signal, channel: true });
    try {
      await running?.ready;
      if (agent === 'stopped') running!.send('SIGSTOP');
      return timed.parse(JSON.parse((await runProgram(load, { signal })).stdout));
    } finally {
      running?.send('SIGCONT');
      running?.stop();
      await running?.ended;
      rmSync(folder, { recursive: true, force: true });
    }
  }

  const measured = await interleaved(AGENTS, ROUNDS, timeUnder);
  const of = (agent: Agent, what: keyof Timed) => median(measured[agent].map((round) => round[what]));
  const shares = (['new_file_ns', 'same_file_ns'] as const).map((what) => of('stopped', what) / of('drained', what));
  const worst = Math.max(...shares);
  return {
    value: of('stopped', 'same_file_ns'),
    anchors: { untraced: of('untraced', 'same_file_ns'), drained: of('drained', 'same_file_ns') },
    targets: [
      {
        text: `with a stopped agent a write costs at most ${SHARE_OF_DRAINED_MAX} times what it costs with one that reads`,
        measured: percent(worst),
        met: worst <= SHARE_OF_DRAINED_MAX,
      },
    ],
    table: [
      ['', 'ns a write to a new file', 'to the same file'],
      ...AGENTS.map((agent) => [agent, nanoseconds(of(agent, 'new_file_ns')), nanoseconds(of(agent, 'same_file_ns'))]),
    ],
    details: { rounds: ROUNDS, files: FILES, writes: WRITES, measured },
  };
}
