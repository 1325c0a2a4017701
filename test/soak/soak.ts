/**
 * A recorder under a steady load goes through incidents: at first of all kinds, killing the agent and the daemon
 * included; then only of those kinds that they survive, so that the resources that they take as they grow old can be
 * judged. Only the agent's view of the wall clock is set: all processes share the machine's own.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Loss } from '../../agent/recording/format/losses.ts';
import { sysWrite } from '../../bpf/schema/sys_write.ts';
import { freePort, temporaryFolder } from '../e2e/kreplay.ts';
import { FILE_SYSTEMS } from '../kernel/small_disk.ts';
import { type Account, accountOf } from './account.ts';
import { type ClientCounts, startClients } from './clients.ts';
import { INCIDENTS, type Incident, type Scene, SURVIVED } from './incidents.ts';
import { PROGRAM, startLoad } from './load.ts';
import { randomNumbers, shuffled } from './random.ts';
import { newSeenNumbers, type SeenNumbers } from './recorded_numbers.ts';
import { startPart } from './recorder.ts';
import { type Growth, growthsOf, type Sample, sampleOf } from './samples.ts';
import { newSetClock, onTheMachinesClock, wallClockNs } from './set_clock.ts';

/** Old events are removed all the time, and the file keeps its size. */
const RETENTION = ['--retain-age', '30s', '--retain-bytes', '64MiB'];
const DISK_MIB = 128;
const LOOK_EVERY_MS = 2000;
/** Any event is recorded within this time: starting agents, full disks and wrong clocks delay it by less. */
const RECORDED_WITHIN_NS = 18_000_000_000n;
const SAMPLE_EVERY_MS = 1000;
/** Share of the time without kills that is not judged: caches fill, and code is compiled. */
const WARM_UP = 0.3;
const PAUSE_SHARE = 1 / 100;
/** Bytes of a write in the ring, with its header. */
const RECORD_BYTES = sysWrite.size + 8;

export interface Pace {
  writesPerMs: number;
  ringMiB: number;
  /** How long a disk is full, and the agent stopped: so long that the ring is full. */
  lasts: Scene['lasts'];
  kinds: readonly Incident[];
  /** Whether a second half without kills shows if anything grows. */
  judgesGrowth: boolean;
}

export const SOAK: Pace = {
  writesPerMs: 50,
  ringMiB: 16,
  lasts: { fullMs: 3000, stallMs: 6000 },
  kinds: Object.keys(INCIDENTS) as Incident[],
  judgesGrowth: true,
};

/** Some seconds, with the least of load and of starts that has each way to lose events. */
export const SHORT: Pace = {
  writesPerMs: 10,
  ringMiB: 1,
  lasts: { fullMs: 1500, stallMs: 3000 },
  kinds: SOAK.kinds.filter((kind) => kind !== 'kill_agent' && kind !== 'kill_daemon'),
  judgesGrowth: false,
};

export interface SoakOptions {
  pace: Pace;
  seconds: number;
  seed: number;
  onProgress(text: string): void;
  /** Ends the soak early, without a report. */
  signal: AbortSignal;
}

export interface SoakReport {
  seed: number;
  seconds: number;
  writes_per_second: number;
  /** When each incident began, in nanoseconds since the epoch. */
  incidents: { incident: Incident; at_ns: bigint }[];
  account: Account;
  losses: Loss[];
  duplicates: number;
  clients: ClientCounts;
  growth: Growth[];
  samples: Sample[];
  /** Descriptions of what is not as it should be. */
  failures: string[];
}

export async function soak(options: SoakOptions): Promise<SoakReport> {
  const disk = FILE_SYSTEMS.tmpfs(DISK_MIB);
  const folder = temporaryFolder();
  const ending: (() => unknown)[] = [disk.remove, folder.remove];
  try {
    const report = soakIn({ disk, folder: folder.path, ...options, atEnd: (end) => ending.unshift(end) });
    return await Promise.race([report, interrupted(options.signal)]);
  } finally {
    for (const end of ending) await end();
  }
}

function interrupted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('interrupted'))));
}

interface Stage extends SoakOptions {
  disk: Scene['disk'];
  folder: string;
  atEnd(end: () => unknown): void;
}

async function soakIn({ pace, disk, folder, seconds, seed, onProgress, atEnd }: Stage): Promise<SoakReport> {
  const dataFolder = join(disk.path, 'data');
  mkdirSync(dataFolder);
  const filter = join(folder, 'filter.json');
  writeFileSync(filter, JSON.stringify({ comms: [PROGRAM], event_types: ['sys_write'] }));
  const clock = newSetClock(folder);
  const agentArgs = [
    'agent',
    '--data',
    dataFolder,
    '--filter-file',
    filter,
    ...RETENTION,
    '--ring-size',
    String(pace.ringMiB),
  ];
  const agent = await startPart(agentArgs, 'recording to', clock.command);
  atEnd(() => agent.kill());
  const address = `127.0.0.1:${await freePort()}`;
  const daemon = await startPart(['daemon', '--data', dataFolder, '--listen', address], 'serving');
  atEnd(() => daemon.kill());
  const load = startLoad(folder, pace.writesPerMs);
  atEnd(load.kill);
  const seen = newSeenNumbers(join(dataFolder, 'recording.kreplay'), load.pid);
  const clients = startClients(`http://${address}`);
  atEnd(clients.leave);

  const watching = new AbortController();
  const samples: Sample[] = [];
  const watch = Promise.all([
    every(LOOK_EVERY_MS, watching.signal, () => look(seen)),
    every(SAMPLE_EVERY_MS, watching.signal, () => {
      const sample = sampleOf(agent.pid, daemon.pid, dataFolder);
      if (sample) samples.push(sample);
    }),
  ]);
  const incidents: SoakReport['incidents'] = [];
  const random = randomNumbers(seed);
  const toldLosses = (cause: Loss['cause']) => {
    seen.lookForLosses();
    return seen.losses().filter((loss) => loss.cause === cause).length;
  };
  const ringWrites = (pace.ringMiB << 20) / RECORD_BYTES;
  const scene = { agent, daemon, disk, clock, random, lasts: pace.lasts, made: load.made, ringWrites, toldLosses };
  const half = { scene, seconds: seconds / 2, pauseMs: seconds * 1000 * PAUSE_SHARE, random, incidents, onProgress };
  await Promise.race([makeIncidents({ ...half, kinds: pace.kinds }), watch]);
  const calmMs = performance.now();
  if (pace.judgesGrowth) await Promise.race([makeIncidents({ ...half, kinds: SURVIVED }), watch]);
  const judged = samples.filter(({ at_ms }) => at_ms > calmMs + (performance.now() - calmMs) * WARM_UP);

  watching.abort();
  await watch;
  await clients.leave();
  const batches = await load.stop();
  agent.running().process.kill('SIGINT');
  const { status } = await agent.running().ended;
  look(seen);
  const losses = seen.losses().map((loss) => onTheMachinesClock(loss, clock.spans));
  const account = accountOf(batches, seen.has, losses);
  const { duplicates } = seen;
  const growth = pace.judgesGrowth ? growthsOf(judged) : [];
  const { counts } = clients;
  const report = { seed, seconds, writes_per_second: pace.writesPerMs * 1000, incidents, account, losses, duplicates };
  const found = { ...report, clients: counts, growth, samples };
  return { ...found, failures: [...(status === 0 ? [] : [`the agent ended with ${status}`]), ...failuresOf(found)] };
}

function look(seen: SeenNumbers): void {
  seen.look(wallClockNs() - RECORDED_WITHIN_NS);
}

/** An error of `work` ends it. */
async function every(ms: number, signal: AbortSignal, work: () => void): Promise<void> {
  while (!signal.aborted) {
    work();
    await sleep(ms, undefined, { signal }).catch(() => {});
  }
}

interface Half {
  scene: Scene;
  seconds: number;
  pauseMs: number;
  kinds: readonly Incident[];
  random: () => number;
  incidents: SoakReport['incidents'];
  onProgress: SoakOptions['onProgress'];
}

/** Makes each kind once, in any order, and again until the time is over; with pauses of any length in between. */
async function makeIncidents({ scene, seconds, pauseMs, kinds, random, incidents, onProgress }: Half): Promise<void> {
  const deadline = performance.now() + seconds * 1000;
  let next = shuffled(kinds, random);
  for (let made = 0; made < kinds.length || performance.now() < deadline; made++) {
    await sleep(random() * 2 * pauseMs);
    if (next.length === 0) next = shuffled(kinds, random);
    const kind = next.pop()!;
    onProgress(kind);
    incidents.push({ incident: kind, at_ns: wallClockNs() });
    await INCIDENTS[kind](scene);
  }
}

function failuresOf({ account, duplicates, growth, clients }: Omit<SoakReport, 'failures'>): string[] {
  const { made, recorded, counted, uncounted, untold, wrong } = account;
  const failures: string[] = [];
  if (untold > 0) failures.push(`${untold} events are missing, and nothing tells it`);
  for (const { fromNs, toNs, missing, told, causes } of wrong)
    failures.push(
      `${missing} events are missing from ${fromNs} to ${toNs}, and ${told} are told (${causes.join(', ')})`,
    );
  if (made !== recorded + counted + uncounted + untold) failures.push('the sums do not add up');
  if (recorded === 0) failures.push('nothing was recorded');
  if (duplicates > 0) failures.push(`${duplicates} events were recorded twice`);
  for (const { measure, flat } of growth) if (!flat) failures.push(`${measure} grows`);
  failures.push(...clients.wrong.map((answer) => `the daemon answered ${answer}`));
  return failures;
}
