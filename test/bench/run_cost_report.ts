/** Formats the measurements of run_cost: targets and table. */
import type { BenchResult, Target } from './bench.ts';
import { INTERCEPTORS, type InterceptorName } from './interceptors.ts';
import { type RunCost, type Starts, THREADS, type WaitOrder } from './measured_run.ts';
import type { PlanCost } from './plan_process.ts';
import type { WaitErrors } from './run_load.ts';
import { median } from './statistics.ts';

const PLANNED_NS_MAX = 6000;
const UNPLANNED_NS_MAX = 100;
const P99_OVER_SLEEP_MAX = 1.5;
const LOAD_NS_MAX = 500_000_000;
const MAKE_NS_MAX = 2_000_000_000;

type Threads = (typeof THREADS)[number];

export function runCostTargets(measured: RunCost): Pick<BenchResult, 'value' | 'anchors' | 'targets'> {
  const added = (name: InterceptorName) => addedNs(measured, name, writeNs);
  return {
    value: added('kreplay'),
    anchors: {
      bare_listener: added('bare_listener'),
      strace: added('strace'),
      strace_anywhere: added('strace_anywhere'),
      strace_delay_0: added('strace_delay_0'),
    },
    targets: [...callTargets(measured), ...waitTargets(measured), ...startTargets(measured)],
  };
}

function callTargets(measured: RunCost): Target[] {
  const planned = addedNs(measured, 'kreplay', writeNs);
  const byStrace = addedNs(measured, 'strace', writeNs);
  const unplanned = addedNs(measured, 'kreplay', unplannedNs);
  const rates = (name: InterceptorName) => THREADS.map((threads) => callsPerSecond(measured, name, threads));
  const [ours, theirs] = [rates('kreplay'), rates('strace')];
  return [
    {
      text: 'a planned write that is not to wait: at most 6 us over a bare one',
      measured: `${microseconds(planned)} us`,
      met: planned <= PLANNED_NS_MAX,
    },
    {
      text: 'and less than strace adds, on one CPU',
      measured: `${microseconds(byStrace)} us`,
      met: planned < byStrace,
    },
    {
      text: 'a call that is not planned: at most 100 ns over a bare one',
      measured: `${unplanned.toFixed(0)} ns`,
      met: unplanned <= UNPLANNED_NS_MAX,
    },
    {
      text: 'more calls a second than under strace on one CPU, with 1, 8 and 64 threads',
      measured: `${ours.map(thousands).join(', ')} and ${theirs.map(thousands).join(', ')} thousand`,
      met: ours.every((rate, at) => rate > theirs[at]!),
    },
  ];
}

function waitTargets(measured: RunCost): Target[] {
  const { faithfulness } = measured;
  const waits = waitsOf(measured, 'by_length');
  const off = (name: 'write' | 'sleep', quantile: 'p50' | 'p99') =>
    waits.map((wait) => microseconds(wait[name][quantile])).join(', ');
  const both = (quantile: 'p50' | 'p99') => `${off('write', quantile)} and ${off('sleep', quantile)} us`;
  const lengths = waits.map(({ lengthNs }) => lengthNs / 1e3).join(', ');
  return [
    {
      text: `waits of ${lengths} us: p50 of the error at most that of a sleep`,
      measured: both('p50'),
      met: waits.every(({ write, sleep }) => write.p50 <= sleep.p50),
    },
    {
      text: `waits of ${lengths} us: p99 of the error at most 1.5 times that of a sleep`,
      measured: both('p99'),
      met: waits.every(({ write, sleep }) => write.p99 <= sleep.p99 * P99_OVER_SLEEP_MAX),
    },
    {
      text: 'every planned call takes what its own event says',
      measured: `${faithfulness.matched} of ${faithfulness.planned}`,
      met: faithfulness.matched === faithfulness.planned,
    },
  ];
}

function startTargets(measured: RunCost): Target[] {
  const loadNs = startNs(measured, 'many_events') - startNs(measured, 'one_event');
  const makeNs = median(measured.plans.map(makingNs));
  const events = measured.plannedEvents.toLocaleString('en');
  return [
    {
      text: `${events} events start the command at most 500 ms later than one does`,
      measured: `${milliseconds(loadNs)} ms`,
      met: loadNs <= LOAD_NS_MAX,
    },
    {
      text: `a plan of ${events} events is made and encoded within 2 s`,
      measured: `${milliseconds(makeNs)} ms`,
      met: makeNs <= MAKE_NS_MAX,
    },
  ];
}

export function runCostTable(measured: RunCost): string[][] {
  const { plannedEvents, plans } = measured;
  const events = plannedEvents.toLocaleString('en');
  const cost = (text: string, of: CallNs) => [
    text,
    ...INTERCEPTORS.map((name) => nanoseconds(nsOf(measured, name, of))),
    nanoseconds(addedNs(measured, 'kreplay', of)),
  ];
  const rate = (threads: Threads) => {
    const rates = INTERCEPTORS.map((name) => thousands(callsPerSecond(measured, name, threads)));
    return [`thousand planned writes/s, ${threads} thread${threads === 1 ? '' : 's'}`, ...rates, ''];
  };
  const rowOf = (text: string, values: readonly number[]) => [
    text,
    ...[median(values), Math.min(...values), Math.max(...values)].map(milliseconds),
    ...['', '', '', ''],
  ];
  const step = (name: 'read_ns' | 'compile_ns' | 'encode_ns') => plans.map((plan) => plan[name]);
  return [
    ['', 'bare', 'kreplay', 'bare listener', 'strace, one CPU', 'strace', 'one CPU, delay 0', 'kreplay adds'],
    cost('ns a planned write that is not to wait', writeNs),
    cost('ns one to another file than the one before', elsewhereNs),
    cost('ns a call that is not planned', unplannedNs),
    ...THREADS.map(rate),
    ['us off a wait, p50', 'kreplay', 'sleep', 'p99 kreplay', 'p99 sleep', 'earliest kreplay', '', ''],
    ...waitsOf(measured, 'by_length').map((wait) => waitRow('', wait)),
    ...waitsOf(measured, 'in_turn').map((wait) => waitRow(', in turn with the others', wait)),
    ['ms until the command starts', 'median', 'least', 'most', '', '', '', ''],
    rowOf('by itself', measured.starts.bare),
    rowOf('by the runner, 1 event', measured.starts.one_event),
    rowOf(`by the runner, ${events} events`, measured.starts.many_events),
    rowOf(`by kreplay run, ${events} events`, measured.starts.kreplay_run),
    [`ms to make a plan of ${events} events`, 'median', 'least', 'most', '', '', '', ''],
    rowOf('from the recording to columns', step('read_ns')),
    rowOf('from columns to a plan', step('compile_ns')),
    rowOf('from a plan to bytes', step('encode_ns')),
  ];
}

type CallCost = RunCost['calls'][InterceptorName][number];
type CallNs = (cost: CallCost) => number;

const writeNs: CallNs = ({ writes }) => writes[1].median_ns;
const elsewhereNs: CallNs = ({ writesElsewhere }) => writesElsewhere.median_ns;
const unplannedNs: CallNs = ({ unplanned }) => unplanned.median_ns;

function nsOf({ calls }: RunCost, name: InterceptorName, of: CallNs): number {
  return median(calls[name].map(of));
}

/** Median over the rounds of the difference to the bare calls of the same round. */
function addedNs({ calls }: RunCost, name: InterceptorName, of: CallNs): number {
  return median(calls[name].map((cost, round) => of(cost) - of(calls.bare[round]!)));
}

function callsPerSecond({ calls }: RunCost, name: InterceptorName, threads: Threads): number {
  return median(calls[name].map(({ writes }) => (writes[threads].calls / writes[threads].elapsed_ns) * 1e9));
}

function startNs({ starts }: RunCost, name: keyof Starts): number {
  return median(starts[name]);
}

function makingNs({ read_ns, compile_ns, encode_ns }: PlanCost): number {
  return read_ns + compile_ns + encode_ns;
}

interface Wait {
  lengthNs: number;
  write: WaitErrors;
  sleep: WaitErrors;
}

function waitsOf({ waits }: RunCost, order: WaitOrder): Wait[] {
  return waits[order][0]!.map(({ length_ns }, at) => ({
    lengthNs: length_ns,
    write: ofRounds(waits[order].map((round) => round[at]!.write_ns)),
    sleep: ofRounds(waits[order].map((round) => round[at]!.sleep_ns)),
  }));
}

function waitRow(order: string, { lengthNs, write, sleep }: Wait): string[] {
  const values = [write.p50, sleep.p50, write.p99, sleep.p99, write.earliest];
  return [`${lengthNs / 1e3} us${order}`, ...values.map(microseconds), '', ''];
}

function ofRounds(rounds: readonly WaitErrors[]): WaitErrors {
  return {
    p50: median(rounds.map(({ p50 }) => p50)),
    p99: median(rounds.map(({ p99 }) => p99)),
    max: Math.max(...rounds.map(({ max }) => max)),
    earliest: Math.min(...rounds.map(({ earliest }) => earliest)),
  };
}

function nanoseconds(value: number): string {
  return value.toFixed(0);
}

/** Keeps tenths, since single nanoseconds matter here. */
function microseconds(value: number): string {
  return (value / 1e3).toFixed(1);
}

/** Formats nanoseconds. */
function milliseconds(value: number): string {
  return (value / 1e6).toFixed(0);
}

function thousands(value: number): string {
  return (value / 1e3).toFixed(0);
}
