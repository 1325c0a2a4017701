/**
 * Defines what intercepts the load's calls: nothing, `kreplay run`'s runner with a plan, a listener that only answers,
 * strace.
 */
import { join } from 'node:path';
import { loadReport } from '../../daemon/run/report/load_report.ts';
import { isMatched } from '../../daemon/run/report/match_kinds.ts';
import type { BenchContext } from './bench.ts';
import { allowedCpus } from './machine.ts';
import { writeLoadPlan } from './planned_load.ts';
import { run } from './process.ts';
import type { Before } from './run_load.ts';

const RUNNER = join(import.meta.dirname, '../../build/kreplay-runner');

export const INTERCEPTORS = [
  'bare',
  'kreplay',
  'bare_listener',
  'strace',
  'strace_anywhere',
  'strace_delay_0',
] as const;
export type InterceptorName = (typeof INTERCEPTORS)[number];

export interface Plan {
  path: string;
  events: number;
}

export interface Interceptors {
  /** Runs it as a build runs: the scheduler chooses the CPU of the load and of what intercepts it. */
  anywhere: Before;
  before(name: InterceptorName, plan: Plan): Before;
  plan(name: string, events: number, threads: number, durationsNs: readonly number[]): Plan;
  /** Number of calls in the runner's last run that were matched to an event of their own. */
  matched(plan: Plan): number;
}

/** strace only counts calls: describing them would cost more. */
const STRACE = [
  ...['strace', '--follow-forks', '--seccomp-bpf', '--summary-only', '--output=/dev/null', '--trace=write'],
];

/** strace stops at each write and lets it continue; only the 65,535th write of a thread would be delayed. */
const STRACE_PASSING = [...STRACE, '--inject=write:delay_enter=1:when=65535'];

/** strace arms a timer for each write. */
const STRACE_DELAY_0 = [...STRACE, '--inject=write:delay_enter=0'];

export async function interceptors({ folder, buildFolder, loadCpu, signal }: BenchContext): Promise<Interceptors> {
  const listener = join(buildFolder, 'bare_listener');
  const source = join(import.meta.dirname, 'bare_listener.c');
  await run(['gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-o', listener, source], { signal });
  const on = (cpus: readonly number[]) => ['taskset', '--cpu-list', cpus.join(',')];
  const anywhere = on([...allowedCpus(), loadCpu]);
  // This is strace at its best: across CPUs, each stop wakes up the other CPU.
  const onOne = on([loadCpu]);
  const reportPath = join(folder, 'report');
  const words: Readonly<Record<InterceptorName, (plan: Plan) => Before>> = {
    bare: () => anywhere,
    kreplay: ({ path }) => [...anywhere, RUNNER, '--plan', path, '--report', reportPath, '--'],
    bare_listener: () => [...anywhere, listener],
    strace: () => [...onOne, ...STRACE_PASSING],
    strace_anywhere: () => [...anywhere, ...STRACE_PASSING],
    strace_delay_0: () => [...onOne, ...STRACE_DELAY_0],
  };
  return {
    anywhere,
    before: (name, plan) => words[name](plan),
    plan(name, events, threads, durationsNs) {
      const path = join(folder, `${name}.plan`);
      writeLoadPlan(path, events, threads, durationsNs);
      return { path, events };
    },
    matched: ({ events }) => loadReport(reportPath, events).calls.how.filter(isMatched).length,
  };
}
