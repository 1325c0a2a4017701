/**
 * Measures how late the daemon plays events, compared with a program that only sleeps to the same deadlines, and one
 * that also sends as many bytes to a socket. Viewers also measure when they receive each event. The daemon has all CPUs,
 * as in production; the viewers and the other programs have one each. Some rounds run beside clients that read all
 * events, sum them up, and ask a thousand small questions a second.
 */
import { join } from 'node:path';
import type { BenchContext, BenchResult, Target } from './bench.ts';
import { allowedCpus } from './machine.ts';
import { type PacedTransaction, writePaced } from './paced_recording.ts';
import { type ReplayDaemon, startReplayDaemon } from './replay_daemon.ts';
import { buildReplayLoad, type ReplayLoad, type ViewResult } from './replay_load.ts';
import { interleaved } from './rounds.ts';
import { median, type Percentiles, percentilesOf } from './statistics.ts';
import { percent } from './table.ts';

export const summary = 'lateness of replayed events, and drift';
export const unit = 'ns at the 50th percentile, 10,000 events/s';

const SECONDS = 10;
const ROUNDS = 3;
const DRIFT_SECONDS = 20;

/** Events per second of each session, and number of concurrent sessions. */
const LOADS = {
  ten_thousand: { text: '10,000 events/s', eventsPerSecond: 10_000, sessions: 1 },
  hundred_thousand: { text: '100,000 events/s', eventsPerSecond: 100_000, sessions: 1 },
  thousand: { text: '1000 events/s', eventsPerSecond: 1000, sessions: 1 },
  hundred: { text: '100 events/s', eventsPerSecond: 100, sessions: 1 },
  many_sessions: { text: '200 sessions of 100 events/s', eventsPerSecond: 100, sessions: 200 },
} as const;
type LoadName = keyof typeof LOADS;
const LOAD_NAMES = Object.keys(LOADS) as LoadName[];

/** Events played per second, at any speed. */
const DRIFT_EVENTS_PER_SECOND = 100;
const DRIFT_SPEEDS = [0.1, 1, 10];

/** Programs that the daemon is compared with. */
const ANCHORS = { nanosleep: 'nanosleep, 10,000/s', program: 'a C program that sends, 10,000/s' } as const;
/** The same, and a session of 10,000 events/s, beside other clients of the daemon. */
const BUSY = {
  busy_nanosleep: 'beside other clients: nanosleep',
  busy_program: 'beside other clients: a C program',
  busy_session: 'beside other clients: 10,000 events/s',
} as const;
type Name = LoadName | keyof typeof ANCHORS | keyof typeof BUSY;
const TEXTS: Record<Name, string> = {
  ...ANCHORS,
  ...(Object.fromEntries(LOAD_NAMES.map((name) => [name, LOADS[name].text])) as Record<LoadName, string>),
  ...BUSY,
};
const NAMES = Object.keys(TEXTS) as Name[];

/** Sessions of which each gets commands, and the events that each plays per second. */
const COMMANDED = { sessions: 1000, eventsPerSecond: 10, seconds: 120, commands: 2000 };

const P99_OVER_SLEEP_MAX = 1.2;
const RECEIVED_OVER_PROGRAM_MAX = 1.3;
const BUSY_OVER_MAX = 1.5;
const MANY_P99_OVER_SLEEP_MAX = 2;
const COMMAND_P99_MS_MAX = 50;
const CPU_SHARE_MAX = 0.31;
/** Far above what the machine does to one event, far below the sum of any error that occurs at each of them. */
const LAST_NS_MAX = 10_000_000;

interface Measured {
  /** Lateness as the events report it, or as the sleeping program measured it. */
  lateness: Percentiles;
  received?: Percentiles;
  /** Share of one CPU. */
  cpuShare: number;
  /** Number of events that were due before they had been read. */
  starvations?: number;
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
  const commanded = transactionOf(COMMANDED.eventsPerSecond, COMMANDED.seconds);
  writePaced(path, [...paced, ...drifting, commanded]);
  const load = await buildReplayLoad(context);
  const daemon = await startReplayDaemon(path, folder, [...allowedCpus(), context.loadCpu], signal);
  try {
    // Code that is compiled in the first seconds would make events late.
    for (let warming = 0; warming < 2; warming++) await play(daemon, load, context, 'ten_thousand');
    const measured = await interleaved(NAMES, ROUNDS, (name, round) => {
      progress(`round ${round + 1} of ${ROUNDS}: ${TEXTS[name]}`);
      return measure(daemon, load, context, name);
    });
    progress(`commands to ${COMMANDED.sessions} sessions`);
    const commands = await measureCommands(daemon);
    progress(`drift over ${driftSeconds} s`);
    const drifts = await measureDrift(daemon, load, context);
    return resultOf({ measured, drifts, commands }, driftSeconds);
  } finally {
    await daemon.stop();
  }
}

async function measure(daemon: ReplayDaemon, load: ReplayLoad, context: BenchContext, name: Name): Promise<Measured> {
  const isBusy = name in BUSY;
  const readers = isBusy ? daemon.busy(transactionOf(LOADS.hundred.eventsPerSecond, SECONDS).transactionId) : undefined;
  try {
    if (name === 'nanosleep' || name === 'busy_nanosleep') return await sleep(load);
    if (name === 'program' || name === 'busy_program') return await send(load, context);
    return await play(daemon, load, context, name === 'busy_session' ? 'ten_thousand' : name);
  } finally {
    await readers?.stop();
  }
}

const ANCHOR_RATE = LOADS.ten_thousand.eventsPerSecond;

async function sleep(load: ReplayLoad): Promise<Measured> {
  const { lateness_ns, cpu_ns, elapsed_ns } = await load.sleep(
    allowedCpus()[0]!,
    1e9 / ANCHOR_RATE,
    ANCHOR_RATE * SECONDS,
  );
  return { lateness: lateness_ns, cpuShare: cpu_ns / elapsed_ns };
}

async function send(load: ReplayLoad, { loadCpu }: BenchContext): Promise<Measured> {
  const [cpu, periodNs] = [allowedCpus()[0]!, 1e9 / ANCHOR_RATE];
  const { lateness_ns, received_ns, cpu_ns, elapsed_ns } = await load.send(
    cpu,
    periodNs,
    ANCHOR_RATE * SECONDS,
    loadCpu,
  );
  return { lateness: lateness_ns, received: received_ns, cpuShare: cpu_ns / elapsed_ns };
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
  let starvations = 0;
  for (const id of ids) {
    starvations += await daemon.starvations(id);
    await daemon.remove(id);
  }
  return { lateness: lateness_ns, received: received_ns, cpuShare, starvations };
}

/** Commands to many sessions that play at once, one after another: percentiles of milliseconds. */
async function measureCommands(daemon: ReplayDaemon): Promise<Percentiles> {
  const { transactionId } = transactionOf(COMMANDED.eventsPerSecond, COMMANDED.seconds);
  const ids: string[] = [];
  for (let i = 0; i < COMMANDED.sessions; i++) ids.push(await daemon.create(transactionId));
  const tookMs: number[] = [];
  for (const id of ids) tookMs.push(await daemon.command(id, 'play'));
  for (let i = 0; tookMs.length < COMMANDED.commands; i++)
    for (const name of ['pause', 'play']) tookMs.push(await daemon.command(ids[(i * 7919) % ids.length]!, name));
  for (const id of ids) await daemon.remove(id);
  return percentilesOf(tookMs);
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

interface Results {
  measured: Record<Name, Measured[]>;
  drifts: readonly Drift[];
  /** Time that a command took, milliseconds. */
  commands: Percentiles;
}

function resultOf(results: Results, driftSeconds: number): BenchResult {
  const late = (name: Name) => ofRounds(results.measured[name].map(({ lateness }) => lateness));
  return {
    value: late('ten_thousand').p50,
    anchors: { nanosleep: late('nanosleep').p50 },
    targets: targetsOf(results, driftSeconds),
    table: tableOf(results),
    details: { seconds: SECONDS, drift_seconds: driftSeconds, ...results },
  };
}

function targetsOf({ measured, drifts, commands }: Results, driftSeconds: number): Target[] {
  const late = (name: Name) => ofRounds(measured[name].map(({ lateness }) => lateness));
  const received = (name: Name) => ofRounds(measured[name].map((round) => round.received!));
  const atMost = (text: string, mostTimes: number, figure: number, anchor: number): Target => ({
    text,
    measured: `${microseconds(figure)} and ${microseconds(anchor)} us`,
    met: figure <= anchor * mostTimes,
  });
  const cpu = median(measured.ten_thousand.map(({ cpuShare }) => cpuShare));
  const starved = measured.hundred_thousand.reduce((sum, { starvations }) => sum + starvations!, 0);
  const [session, slept, sent] = ['ten_thousand', 'nanosleep', 'program'] as const;
  const [busy, busySlept, busySent] = ['busy_session', 'busy_nanosleep', 'busy_program'] as const;
  const viewer = `at most ${RECEIVED_OVER_PROGRAM_MAX} times that of the C program`;
  const beside = `beside other clients: at most ${BUSY_OVER_MAX} times that of`;
  return [
    atMost('10,000 events/s: p50 at most that of nanosleep', 1, late(session).p50, late(slept).p50),
    atMost(`p99 at most ${P99_OVER_SLEEP_MAX} times`, P99_OVER_SLEEP_MAX, late(session).p99, late(slept).p99),
    atMost(`at the viewer: p50 ${viewer}`, RECEIVED_OVER_PROGRAM_MAX, received(session).p50, received(sent).p50),
    atMost(`at the viewer: p99 ${viewer}`, RECEIVED_OVER_PROGRAM_MAX, received(session).p99, received(sent).p99),
    atMost(`p50 ${beside} nanosleep`, BUSY_OVER_MAX, late(busy).p50, late(busySlept).p50),
    atMost(`p99 ${beside} nanosleep`, BUSY_OVER_MAX, late(busy).p99, late(busySlept).p99),
    atMost(`at the viewer: p99 ${beside} the C program`, BUSY_OVER_MAX, received(busy).p99, received(busySent).p99),
    atMost(
      `200 sessions of 100 events/s: p99 at most ${MANY_P99_OVER_SLEEP_MAX} times that of nanosleep`,
      MANY_P99_OVER_SLEEP_MAX,
      late('many_sessions').p99,
      late(slept).p99,
    ),
    { text: '100,000 events/s: no event is due before it has been read', measured: `${starved}`, met: starved === 0 },
    {
      text: `${COMMANDED.sessions} sessions: commands p99 at most ${COMMAND_P99_MS_MAX} ms`,
      measured: `${commands.p99.toFixed(1)} ms`,
      met: commands.p99 <= COMMAND_P99_MS_MAX,
    },
    {
      text: `10,000 events/s: at most ${percent(CPU_SHARE_MAX)} of a CPU`,
      measured: percent(cpu),
      met: cpu <= CPU_SHARE_MAX,
    },
    {
      text: `no drift over ${driftSeconds} s: deadlines are exact, the last event is less than 10 ms late`,
      measured: drifts.map(({ speed, latenessNs }) => `${microseconds(latenessNs)} us at ${speed}x`).join(', '),
      met: drifts.every(({ deadlineNs, latenessNs }) => deadlineNs === 0 && latenessNs < LAST_NS_MAX),
    },
  ];
}

function tableOf({ measured, drifts, commands }: Results): string[][] {
  const row = (text: string, { p50, p99, max }: Percentiles, cpu: string) => [
    text,
    microseconds(p50),
    microseconds(p99),
    microseconds(max),
    cpu,
  ];
  const cpuOf = (rounds: readonly Measured[]) => percent(median(rounds.map(({ cpuShare }) => cpuShare)));
  const rows = [['us late', 'p50', 'p99', 'max', 'CPU']];
  for (const name of NAMES) {
    const rounds = measured[name];
    rows.push(row(TEXTS[name], ofRounds(rounds.map(({ lateness }) => lateness)), cpuOf(rounds)));
    const received = rounds.flatMap((round) => round.received ?? []);
    if (received.length > 0) rows.push(row('  at the viewer', ofRounds(received), ''));
  }
  const inMicroseconds = { p50: commands.p50 * 1e6, p99: commands.p99 * 1e6, max: commands.max * 1e6 };
  rows.push(row(`a command to one of ${COMMANDED.sessions} sessions`, inMicroseconds, ''));
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
