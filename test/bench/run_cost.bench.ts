/**
 * Measures what `kreplay run` costs the build that it runs, compared with strace, and how exactly calls take their
 * planned time, compared with a program that only sleeps. All times are by the build's own clock. Only strace is pinned
 * to a CPU.
 */
import { join } from 'node:path';
import type { BenchContext, BenchResult } from './bench.ts';
import { INTERCEPTORS, type InterceptorName, type Interceptors, interceptors } from './interceptors.ts';
import {
  type CallCost,
  type Faithfulness,
  type RunCost,
  type Starts,
  THREADS,
  type WaitOrder,
} from './measured_run.ts';
import { writePaced } from './paced_recording.ts';
import type { PlanCost } from './plan_process.ts';
import { KREPLAY, NODE, run as runProgram } from './process.ts';
import { interleaved } from './rounds.ts';
import { runCostTable, runCostTargets } from './run_cost_report.ts';
import { type Before, buildRunLoad, type LoadCall, type RunLoad, type Waits } from './run_load.ts';

export const summary = 'what kreplay run adds to calls, how exact its waits are, how soon a build starts';
export const unit = 'ns added to a planned write that is not to wait';

const ROUNDS = 5;

/** Number of writes; gives whole batches for each thread at any number of threads. */
const WRITES = 38_400;
/** More of them without interception: fewer would end before the last of many threads has started. */
const BARE_WRITES = 20 * WRITES;
const UNPLANNED_CALLS = 1_000_000;

const LENGTHS_NS = [50_000, 200_000, 1_000_000, 10_000_000];
const WAITS_OF_EACH = 300;
/** Fewer of each length, since a cycle has all lengths. */
const WAITS_IN_TURN = 100;

const PLANNED_EVENTS = 1_000_000;
const PLANNED_THREADS = 64;
const PLANNED_PERIOD_NS = 1000;
const TRANSACTION = 'incident';

export async function run(context: BenchContext): Promise<BenchResult> {
  const plannedEvents = context.sizes.events ?? PLANNED_EVENTS;
  const load = await buildRunLoad(context);
  const intercepting = await interceptors(context);
  const faithfulness: Faithfulness = { planned: 0, matched: 0 };
  const calls = await measureCalls(context, load, intercepting, faithfulness);
  const waits = await measureWaits(context, load, intercepting, faithfulness);
  const { starts, plans } = await measureStarts(context, load, intercepting, plannedEvents);
  const measured: RunCost = { calls, waits, faithfulness, plannedEvents, starts, plans };
  const { value, anchors, targets } = runCostTargets(measured);
  const sizes = {
    rounds: ROUNDS,
    writes: WRITES,
    unplanned_calls: UNPLANNED_CALLS,
    waits_of_each: WAITS_OF_EACH,
    waits_in_turn: WAITS_IN_TURN,
  };
  return { value, anchors, targets, table: runCostTable(measured), details: { ...sizes, ...measured } };
}

async function measureCalls(
  { progress }: BenchContext,
  load: RunLoad,
  { plan, before, matched }: Interceptors,
  faithfulness: Faithfulness,
): Promise<Record<InterceptorName, CallCost[]>> {
  progress('planning');
  const plans = THREADS.map((threads) => ({ threads, plan: plan(`${threads}_threads`, WRITES, threads, [0]) }));
  return interleaved(INTERCEPTORS, ROUNDS, async (name, round) => {
    progress(`calls, round ${round + 1} of ${ROUNDS}: ${name}`);
    const count = name === 'bare' ? BARE_WRITES : WRITES;
    const writes: Partial<CallCost['writes']> = {};
    for (const { threads, plan } of plans) {
      writes[threads] = await load.call(before(name, plan), 'write', threads, count);
      if (name === 'kreplay') add(faithfulness, WRITES, matched(plan));
    }
    const alone = (call: LoadCall, count: number) => load.call(before(name, plans[0]!.plan), call, 1, count);
    const writesElsewhere = await alone('write_elsewhere', count);
    const unplanned = await alone('getppid', UNPLANNED_CALLS);
    return { writes: writes as CallCost['writes'], writesElsewhere, unplanned };
  });
}

async function measureWaits(
  { progress }: BenchContext,
  load: RunLoad,
  { plan, before, matched }: Interceptors,
  faithfulness: Faithfulness,
): Promise<Record<WaitOrder, Waits[]>> {
  const wait = async (name: string, count: number, lengthsNs: readonly number[]) => {
    const planned = plan(name, count * lengthsNs.length, 1, lengthsNs);
    const measured = await load.wait(before('kreplay', planned), count, lengthsNs);
    add(faithfulness, planned.events, matched(planned));
    return measured;
  };
  const orders: Record<WaitOrder, () => Promise<Waits>> = {
    by_length: async () => {
      const measured: Waits = [];
      for (const length of LENGTHS_NS) measured.push(...(await wait(`${length}_ns`, WAITS_OF_EACH, [length])));
      return measured;
    },
    in_turn: () => wait('in_turn', WAITS_IN_TURN, LENGTHS_NS),
  };
  return interleaved(['by_length', 'in_turn'], ROUNDS, (order, round) => {
    progress(`waits, round ${round + 1} of ${ROUNDS}: ${order}`);
    return orders[order]();
  });
}

/** A call that the runner did not see was not matched to its event either. */
function add(faithfulness: Faithfulness, planned: number, matched: number): void {
  faithfulness.planned += planned;
  faithfulness.matched += matched;
}

async function measureStarts(
  { folder, signal, progress }: BenchContext,
  load: RunLoad,
  { plan, before, anywhere }: Interceptors,
  events: number,
): Promise<{ starts: Starts; plans: PlanCost[] }> {
  progress('writing the recording');
  const recording = join(folder, 'incident.kreplay');
  const shape = { events, periodNs: PLANNED_PERIOD_NS, threads: PLANNED_THREADS };
  writePaced(recording, [{ transactionId: TRANSACTION, ...shape }]);
  const many = { path: join(folder, 'many_events.plan'), events };
  const makePlan = async (): Promise<PlanCost> => {
    const words = [join(import.meta.dirname, 'plan_process.ts'), recording, TRANSACTION, many.path];
    return JSON.parse((await runProgram([...anywhere, ...NODE, ...words], { signal })).stdout);
  };
  const one = plan('one_event', 1, 1, [0]);
  const wholeCommand = [
    ...KREPLAY,
    'run',
    '--bundle',
    recording,
    '--transaction',
    TRANSACTION,
    '--require',
    'none',
    '--',
  ];
  const plans: PlanCost[] = [];
  const starters: Record<keyof Starts, Before> = {
    bare: anywhere,
    one_event: before('kreplay', one),
    many_events: before('kreplay', many),
    kreplay_run: [...anywhere, ...wholeCommand],
  };
  const starts = await interleaved(Object.keys(starters) as (keyof Starts)[], ROUNDS, async (name, round) => {
    progress(`starts, round ${round + 1} of ${ROUNDS}: ${name}`);
    if (name === 'bare') plans.push(await makePlan());
    return load.start(starters[name]);
  });
  return { starts, plans };
}
