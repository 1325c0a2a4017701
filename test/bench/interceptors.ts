/** What the load's calls go through: nothing, `kreplay run`'s runner with a plan, a listener that only answers, strace. */
import { join } from 'node:path';
import { isMatched } from '../../daemon/run/report/hows.ts';
import { loadReport } from '../../daemon/run/report/load_report.ts';
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
  /** As a build runs: where the scheduler wants it, and what intercepts it too. */
  anywhere: Before;
  before(name: InterceptorName, plan: Plan): Before;
  plan(name: string, events: number, threads: number, durationsNs: readonly number[]): Plan;
  /** Calls of the runner's last run that took what an event of their own says. */
  matched(plan: Plan): number;
}

/** Counts calls: describing them would cost more. */
const STRACE = [
  ...['strace', '--follow-forks', '--seccomp-bpf', '--summary-only', '--output=/dev/null', '--trace=write'],
];

/** Stops for each write and lets it go on, as long as no thread makes 65,535. */
const STRACE_PASSING = [...STRACE, '--inject=write:delay_enter=1:when=65535'];

/** Arms a timer for each. */
const STRACE_DELAY_0 = [...STRACE, '--inject=write:delay_enter=0'];

export async function interceptors({ folder, buildFolder, loadCpu, signal }: BenchContext): Promise<Interceptors> {
  const listener = join(buildFolder, 'bare_listener');
  const source = join(import.meta.dirname, 'bare_listener.c');
  await run(['gcc', '-O2', '-Wall', '-Wextra', '-Werror', '-o', listener, source], { signal });
  const on = (cpus: readonly number[]) => ['taskset', '--cpu-list', cpus.join(',')];
  const anywhere = on([...allowedCpus(), loadCpu]);
  // At its best: from CPU to CPU it wakes the other one up for each stop.
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
