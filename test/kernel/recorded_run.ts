/** Runs a workload while a real agent records, and returns what it recorded. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LossParts } from '../../agent/recording/format/losses.ts';
import { openReader } from '../../agent/recording/read/reader.ts';
import { RECORDING_FILE } from '../../agent/recording_path.ts';
import type { ApiEvent, BlockIoEvent, SysWriteEvent } from '../../bpf/schema/api.ts';
import { openRecordingStore } from '../../daemon/store/embedded/recording_store.ts';
import type { EventFilter, NodeLoss } from '../../daemon/store/store.ts';
import { readEvents } from '../daemon/store/read_events.ts';
import { ROOT } from './programs.ts';

const EVENTS_MAX = 1_000_000;
/** Time in which an agent commits what has happened, also on a busy machine. */
const COMMIT_MS_MAX = 60_000;
const LOOK_MS = 25;

export interface Agent {
  process: ChildProcess;
  dataFolder: string;
  /** Ends it as Ctrl-C does. */
  stop(): Promise<void>;
}

export interface Recorded {
  dataFolder: string;
  events(filter?: EventFilter): ApiEvent[];
  writes(filter?: EventFilter): SysWriteEvent[];
  blockIos(filter?: EventFilter): BlockIoEvent[];
  losses(parts?: LossParts): NodeLoss[];
}

const folders: string[] = [];
const agents: ChildProcess[] = [];

/** The folder exists until removeFolders(). */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-kernel-'));
  folders.push(folder);
  return folder;
}

/** Tests call it in afterAll(). It would empty what is mounted in a folder: that has to be unmounted before. */
export function removeFolders(): void {
  // A test that failed has not ended its agent.
  for (const agent of agents.splice(0)) if (agent.exitCode === null) agent.kill('SIGKILL');
  const mounts = readFileSync('/proc/self/mounts', 'utf8');
  for (const folder of folders.splice(0)) {
    if (mounts.includes(` ${folder}`)) throw new Error(`something is mounted in ${folder}: unmount it first`);
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Resolves when everything is attached. */
export async function startAgent(dataFolder: string, flags: readonly string[] = []): Promise<Agent> {
  const agent = fork(join(ROOT, 'kreplay.ts'), ['agent', '--data', dataFolder, ...flags], {
    execArgv: [],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  agents.push(agent);
  let complaints = '';
  agent.stderr!.setEncoding('utf8').on('data', (text: string) => {
    complaints += text;
  });
  const ended = once(agent, 'exit');
  await Promise.race([
    once(agent, 'message'),
    ended.then(() => Promise.reject(new Error(`the agent did not start: ${complaints}`))),
  ]);
  return {
    process: agent,
    dataFolder,
    async stop() {
      agent.kill('SIGINT');
      const [code] = await ended;
      if (code !== 0) throw new Error(`the agent ended with ${code}: ${complaints}`);
    },
  };
}

/** A half-open range of the wall clock. */
interface Window {
  fromNs: bigint;
  toNs: bigint;
}

/** Returns what is recorded of a time, or everything. */
export function readRecording(dataFolder: string, window?: Window): Recorded {
  const events = (filter: EventFilter = {}) => {
    const store = openRecordingStore(dataFolder);
    try {
      return readEvents(store, { filter: { ...filter, ...window }, order: 'asc', limit: EVENTS_MAX });
    } finally {
      store.close();
    }
  };
  return {
    dataFolder,
    events,
    writes: (filter) => events({ ...filter, eventTypes: ['sys_write'] }) as SysWriteEvent[],
    blockIos: (filter) => events({ ...filter, eventTypes: ['block_io'] }) as BlockIoEvent[],
    losses(parts) {
      const store = openRecordingStore(dataFolder);
      try {
        return store.listLosses(window?.fromNs, window?.toNs, undefined, parts);
      } finally {
        store.close();
      }
    },
  };
}

/** Records `workload` from attaching the programs to a clean end. */
export async function record(
  workload: () => void | Promise<void>,
  flags: readonly string[] = [],
  dataFolder = temporaryFolder(),
): Promise<Recorded> {
  const agent = await startAgent(dataFolder, flags);
  try {
    await workload();
  } finally {
    await agent.stop();
  }
  return readRecording(dataFolder);
}

/** An agent for the tests of a suite that need the same options: to start one takes longer than most of their workloads. */
export interface Recorder {
  /** Records `workload`: returns all that began while it ran, other programs' events too, when that is committed. */
  record(workload: () => void | Promise<void>): Promise<Recorded>;
  /** What is recorded by now, and later: for a workload that waits until the agent knows something. */
  soFar(): Promise<Recorded>;
  /** Ends the agent, if there is one; the next workload would start another. */
  stop(): Promise<void>;
}

/** The agent starts with the first workload. */
export function newRecorder(flags: readonly string[] = []): Recorder {
  let started: Promise<Agent> | undefined;
  const start = () => {
    started ??= startAgent(temporaryFolder(), flags);
    return started;
  };
  return {
    async record(workload) {
      return recordWith(await start(), workload);
    },
    async soFar() {
      return readRecording((await start()).dataFolder);
    },
    async stop() {
      const agent = await started;
      started = undefined;
      await agent?.stop();
    },
  };
}

async function recordWith({ dataFolder }: Agent, workload: () => void | Promise<void>): Promise<Recorded> {
  const fromNs = BigInt(Date.now()) * 1_000_000n;
  await workload();
  // The clock has passed all of the workload's times when its next millisecond begins.
  const toNs = BigInt(Date.now() + 1) * 1_000_000n;
  await committed(dataFolder, toNs);
  return readRecording(dataFolder, { fromNs, toNs });
}

/** An agent whose filter is changed for each workload, as an operator changes it: to start another one takes longer. */
export interface FilteredRecorder {
  agent: Agent;
  /** Records `workload` with this filter, in the form of a filter file. */
  record(filter: object, workload: () => void | Promise<void>): Promise<Recorded>;
  /** Returns what the agent logs when it has read the file again. */
  reload(filter: object | string): Promise<string>;
}

export async function startFilteredAgent(): Promise<FilteredRecorder> {
  const file = join(temporaryFolder(), 'filter.json');
  writeFileSync(file, '{}');
  const agent = await startAgent(temporaryFolder(), ['--filter-file', file]);
  const reload = async (filter: object | string) => {
    writeFileSync(file, typeof filter === 'string' ? filter : JSON.stringify(filter));
    return saidOfFilter(agent);
  };
  return {
    agent,
    reload,
    async record(filter, workload) {
      // What the filter before let through is told apart by its time.
      await reload(filter);
      return recordWith(agent, workload);
    },
  };
}

/** Makes the agent read its filter file again, and returns what it logs. */
export async function saidOfFilter({ process: agent }: Agent): Promise<string> {
  const said = new Promise<string>((resolve) => {
    // Besides, the agent may report ends that the kernel hides.
    const listen = (text: unknown) => {
      if (!/filter|comm/.test(String(text))) return;
      agent.stderr!.off('data', listen);
      resolve(String(text));
    };
    agent.stderr!.on('data', listen);
  });
  agent.kill('SIGHUP');
  return said;
}

/** Resolves when everything that happened by `toNs` is in the recording, or counted as lost. */
export async function committed(dataFolder: string, toNs: bigint): Promise<void> {
  const deadline = performance.now() + COMMIT_MS_MAX;
  for (;;) {
    const reader = openReader(join(dataFolder, RECORDING_FILE));
    const span = reader.recordedSpan();
    reader.close();
    if (span && span.toNs >= toNs) return;
    if (performance.now() > deadline) throw new Error(`the agent did not commit within ${COMMIT_MS_MAX} ms`);
    await sleep(LOOK_MS);
  }
}
