/** The agent and the daemon of a soak, which end and come back. */
import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Running, start } from '../e2e/kreplay.ts';
import { bpfMaps } from './samples.ts';

const BPFTOOL = '/usr/sbin/bpftool';
/** The kernel frees the resources of a dead process a moment later. */
const FREED_MS_MAX = 10_000;

export interface Part {
  readonly pid: number;
  /** Kills it, and waits until it is gone. */
  kill(): Promise<void>;
  begin(): Promise<void>;
  running(): Running;
}

/** Starts kreplay with `args`, after `command` on its command line; it is ready when its output `says` so. */
export async function startPart(args: readonly string[], says: string, command: readonly string[] = []): Promise<Part> {
  let current = start(args, command);
  await current.says(says);
  return {
    get pid() {
      return current.process.pid!;
    },
    running: () => current,
    async kill() {
      current.process.kill('SIGKILL');
      await current.ended;
    },
    async begin() {
      current = start(args, command);
      await current.says(says);
    },
  };
}

/** Kills an agent; throws if the kernel keeps maps of it. */
export async function killAgent(agent: Part): Promise<void> {
  const held = bpfMaps(agent.pid);
  await agent.kill();
  const deadline = performance.now() + FREED_MS_MAX;
  for (;;) {
    const there = new Set(mapsOfKernel());
    const left = held.filter((id) => there.has(id));
    if (left.length === 0) return;
    if (performance.now() > deadline) throw new Error(`maps of a killed agent are still there: ${left.join(', ')}`);
    await sleep(100);
  }
}

function mapsOfKernel(): number[] {
  const list = execFileSync(BPFTOOL, ['-j', 'map', 'list'], { encoding: 'utf8', maxBuffer: 1 << 26 });
  return (JSON.parse(list) as { id: number }[]).map(({ id }) => id);
}
