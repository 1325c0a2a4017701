/**
 * Measures how late the daemon plays events, compared with a program that only sleeps to the same deadlines. Viewers
 * also measure when they receive each event. The daemon has all CPUs, as in production; the viewers and the other
 * program have one each.
 */
import { join } from 'node:path';
import type { BenchContext, BenchResult, Target } from './bench.ts';
import { allowedCpus } from './machine.ts';
import { type PacedTransaction, writePaced } from './paced_recording.ts';
import { type ReplayDaemon, startReplayDaemon } from './replay_daemon.ts';
import { buildReplayLoad, type ReplayLoad, type ViewResult } from './replay_load.ts';
import { interleaved } from './rounds.ts';
import { median, type Percentiles } from './statistics.ts';
import { percent } from './table.ts';

export const summary = 'lateness of replayed events, and drift';
export const unit = 'ns at the 50th percentile, 10,000 events/s';

const SECONDS = 10;
const ROUNDS = 3;
const DRIFT_SECONDS = 20;

/** Events per second of each session, and number of concurrent sessions. */
const LOADS = {
  ten_thousand: { text: '10,000 events/s', eventsPerSecond: 10_000, sessions: 1 },
  thousand: { text: '1000 events/s', eventsPerSecond: 1000, sessions: 1 },
  hundred: { text: '100 events/s', eventsPerSecond: 100, sessions: 1 },
  many_sessions: { text: '200 sessions of 100 events/s', eventsPerSecond: 100, sessions: 200 },
} as const;
type LoadName = keyof typeof LOADS;
const LOAD_NAMES = Object.keys(LOADS) as LoadName[];

/** Events played per second, at any speed. */
const DRIFT_EVENTS_PER_SECOND = 100;
const DRIFT_SPEEDS = [0.1, 1, 10];

const P50_OVER_SLEEP_NS_MAX = 10_000;
const P99_OVER_SLEEP_MAX = 1.5;
const MANY_P50_NS_MAX = 1_000_000;
/** Far above what the machine does to one event, far below the sum of any error that occurs at each of them. */
const LAST_NS_MAX = 10_000_000;

interface Measured {
  /** Lateness as the events report it, or as the sleeping program measured it. */
  lateness: Percentiles;
  received?: Percentiles;
  /** Share of one CPU. */
  cpuShare: number;
}

interface Drift {
  speed: number;
  /** Time from the first deadline to the last, minus the time expected from the recording and the speed. */
  deadlineNs: number;
  /** Lateness of the last event. */
  latenessNs: number;
  receivedNs: number;
}

const transactionOf = (eventsPerSecond: number, seconds: number, speed = 1): PacedTransaction => ({
  transactionId: `${eventsPerSecond}-${speed}`,
  events: eventsPerSecond * seconds + 1,
  periodNs: (1e9 / eventsPerSecond) * speed,
});

export async function run(context: BenchContext): Promise<BenchResult> {
  const { folder, signal, sizes, progress } = context;
  const path = join(folder, 'paced.kreplay');
  const driftSeconds = sizes.seconds ?? DRIFT_SECONDS;
  progress('writing the recording');
  const rates = new Set(Object.values(LOADS).map(({ eventsPerSecond }) => eventsPerSecond));
  const paced = Array.from(rates, (rate) => transactionOf(rate, SECONDS));
  const drifting = DRIFT_SPEEDS.map((speed) => ({
    ...transactionOf(DRIFT_EVENTS_PER_SECOND, driftSeconds, speed),
    transactionId: `drift-${speed}`,
  }));
  writePaced(path, [...paced, ...drifting]);
  const load = await buildReplayLoad(context);
  const daemon = await startReplayDaemon(path, folder, [...allowedCpus(), context.loadCpu], signal);
  try {
    // Code that is compiled in the first seconds would make events late.
    for (let warming = 0; warming < 2; warming++) await play(daemon, load, context, 'ten_thousand');
    const measured = await interleaved(['nanosleep', ...LOAD_NAMES], ROUNDS, (name, round) => {
      progress(`round ${round + 1} of ${ROUNDS}: ${name}`);
      return name === 'nanosleep' ? sleep(load) : play(daemon, load, context, name);
    });
    progress(`drift over ${driftSeconds} s`);
    const drifts = await measureDrift(daemon, load, context);
    return resultOf(measured, drifts, driftSeconds);
  } finally {
    await daemon.stop();
  }
}

async function sleep(load: ReplayLoad): Promise<Measured> {
  const rate = LOADS.ten_thousand.eventsPerSecond;
  const { lateness_ns, cpu_ns, elapsed_ns } = await load.sleep(allowedCpus()[0]!, 1e9 / rate, rate * SECONDS);
  return { lateness: lateness_ns, cpuShare: cpu_ns / elapsed_ns };
}

async function play(
  daemon: ReplayDaemon,
  load: ReplayLoad,
  { loadCpu }: BenchContext,
  name: LoadName,
): Promise<Measured> {
  const { eventsPerSecond, sessions } = LOADS[name];
  const { transactionId } = transactionOf(eventsPerSecond, SECONDS);
  const ids: string[] = [];
  for (let i = 0; i < sessions; i++) ids.push(await daemon.create(transactionId));
  const cpuSeconds = await daemon.cpuSeconds();
  const startMs = performance.now();
  const { lateness_ns, received_ns } = await load.view(loadCpu, daemon.socketPath, ids);
  const elapsedSeconds = (performance.now() - startMs) / 1e3;
  const cpuShare = ((await daemon.cpuSeconds()) - cpuSeconds) / elapsedSeconds;
  for (const id of ids) await daemon.remove(id);
  return { lateness: lateness_ns, received: received_ns, cpuShare };
}

/** Plays all speeds at once. */
async function measureDrift(daemon: ReplayDaemon, load: ReplayLoad, { loadCpu }: BenchContext): Promise<Drift[]> {
  const ids: string[] = [];
  for (const speed of DRIFT_SPEEDS) ids.push(await daemon.create(`drift-${speed}`, speed));
  const { sessions } = await load.view(loadCpu, daemon.socketPath, ids);
  for (const id of ids) await daemon.remove(id);
  return DRIFT_SPEEDS.map((speed, i) => driftOf(speed, sessions[i]!));
}

function driftOf(speed: number, { first, last }: ViewResult['sessions'][number]): Drift {
  const shouldTakeNs = (last.offset_ns - first.offset_ns) / speed;
  return {
    speed,
    deadlineNs: Math.round(last.due_ns - first.due_ns - shouldTakeNs),
    latenessNs: last.lateness_ns,
    receivedNs: last.received_ns - last.due_ns,
  };
}

function resultOf(
  measured: Record<LoadName | 'nanosleep', Measured[]>,
  drifts: readonly Drift[],
  driftSeconds: number,
): BenchResult {
  const late = (name: LoadName | 'nanosleep') => ofRounds(measured[name].map(({ lateness }) => lateness));
  const [slept, fast, many] = [late('nanosleep'), late('ten_thousand'), late('many_sessions')];
  const targets: Target[] = [
    {
      text: '10,000 events/s: p50 at most 10 us over that of nanosleep',
      measured: `${microseconds(fast.p50)} and ${microseconds(slept.p50)} us`,
      met: fast.p50 <= slept.p50 + P50_OVER_SLEEP_NS_MAX,
    },
    {
      text: '10,000 events/s: p99 at most 1.5 times that of nanosleep',
      measured: `${microseconds(fast.p99)} and ${microseconds(slept.p99)} us`,
      met: fast.p99 <= slept.p99 * P99_OVER_SLEEP_MAX,
    },
    {
      text: '200 sessions of 100 events/s: p50 below 1 ms',
      measured: `${microseconds(many.p50)} us`,
      met: many.p50 < MANY_P50_NS_MAX,
    },
    {
      text: `no drift over ${driftSeconds} s: deadlines are exact, the last event is less than 10 ms late`,
      measured: drifts.map(({ speed, latenessNs }) => `${microseconds(latenessNs)} us at ${speed}x`).join(', '),
      met: drifts.every(({ deadlineNs, latenessNs }) => deadlineNs === 0 && latenessNs < LAST_NS_MAX),
    },
  ];
  return {
    value: fast.p50,
    anchors: { nanosleep: slept.p50 },
    targets,
    table: tableOf(measured, drifts),
    details: { seconds: SECONDS, drift_seconds: driftSeconds, measured, drifts },
  };
}

function tableOf(measured: Record<LoadName | 'nanosleep', Measured[]>, drifts: readonly Drift[]): string[][] {
  const row = (text: string, { p50, p99, max }: Percentiles, cpu: string) => [
    text,
    microseconds(p50),
    microseconds(p99),
    microseconds(max),
    cpu,
  ];
  const cpuOf = (rounds: readonly Measured[]) => percent(median(rounds.map(({ cpuShare }) => cpuShare)));
  const rows = [
    ['us late', 'p50', 'p99', 'max', 'CPU'],
    row('nanosleep, 10,000/s', ofRounds(measured.nanosleep.map(({ lateness }) => lateness)), cpuOf(measured.nanosleep)),
  ];
  for (const name of LOAD_NAMES) {
    const rounds = measured[name];
    rows.push(row(LOADS[name].text, ofRounds(rounds.map(({ lateness }) => lateness)), cpuOf(rounds)));
    rows.push(row('  at the viewer', ofRounds(rounds.map(({ received }) => received!)), ''));
  }
  for (const { speed, deadlineNs, latenessNs, receivedNs } of drifts) {
    const text = `last event at ${speed}x: deadline ${deadlineNs} ns off`;
    rows.push([text, '', '', microseconds(latenessNs), ''], ['  at the viewer', '', '', microseconds(receivedNs), '']);
  }
  return rows;
}

function ofRounds(rounds: readonly Percentiles[]): Percentiles {
  return {
    p50: median(rounds.map(({ p50 }) => p50)),
    p99: median(rounds.map(({ p99 }) => p99)),
    max: Math.max(...rounds.map(({ max }) => max)),
  };
}

/** Keeps tenths, since single nanoseconds matter here. */
function microseconds(value: number): string {
  return (value / 1e3).toFixed(1);
}
