/** Runs a workload while a real agent records, and returns what it recorded. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ApiEvent, BlockIoEvent, SysWriteEvent } from '../../bpf/schema/api.ts';
import { openRecordingStore } from '../../daemon/store/embedded/recording_store.ts';
import type { EventFilter, NodeLoss } from '../../daemon/store/store.ts';
import { readEvents } from '../daemon/read_events.ts';
import { ROOT } from './programs.ts';

const EVENTS_MAX = 1_000_000;

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
  losses(): NodeLoss[];
}

const folders: string[] = [];

/** The folder exists until removeFolders(). */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-kernel-'));
  folders.push(folder);
  return folder;
}

/** Tests call it in afterAll(). It would empty what is mounted in a folder: that has to be unmounted before. */
export function removeFolders(): void {
  const mounts = readFileSync('/proc/self/mounts', 'utf8');
  for (const folder of folders.splice(0)) {
    if (mounts.includes(` ${folder}`)) throw new Error(`something is mounted in ${folder}: unmount it first`);
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Resolves when everything is attached. */
export async function startAgent(dataFolder: string, flags: readonly string[] = []): Promise<Agent> {
  const agent = fork(join(ROOT, 'kreplay.ts'), ['agent', '--data', dataFolder, ...flags], {
    execArgv: [],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
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

export function readRecording(dataFolder: string): Recorded {
  const events = (filter: EventFilter = {}) => {
    const store = openRecordingStore(dataFolder);
    try {
      return readEvents(store, { filter, order: 'asc', limit: EVENTS_MAX });
    } finally {
      store.close();
    }
  };
  return {
    dataFolder,
    events,
    writes: (filter) => events({ ...filter, eventTypes: ['sys_write'] }) as SysWriteEvent[],
    blockIos: (filter) => events({ ...filter, eventTypes: ['block_io'] }) as BlockIoEvent[],
    losses() {
      const store = openRecordingStore(dataFolder);
      try {
        return store.losses(undefined, undefined);
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
