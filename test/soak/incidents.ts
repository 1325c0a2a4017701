/** Incidents that a recorder goes through in a soak; one at a time, each until it is over. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Loss } from '../../agent/recording/format/losses.ts';
import type { SmallDisk } from '../kernel/small_disk.ts';
import { killAgent, type Part } from './recorder.ts';
import type { SetClock } from './set_clock.ts';

export interface Scene {
  agent: Part;
  daemon: Part;
  disk: SmallDisk;
  /** The agent's clock. */
  clock: SetClock;
  random(): number;
  lasts: { fullMs: number; stallMs: number };
  /** Number of writes that the load has made, and that a full ring has. */
  made(): number;
  ringWrites: number;
  /** Number of losses of a cause that the recording has told by now. */
  toldLosses(cause: Loss['cause']): number;
}

/** The agent reads its clock at each turn. */
const SET_MS = 500;

const PATIENCE_MS = 20_000;

const RELOADED = /"the filter was read again"/g;
const FULL = /no space is left on the device/g;
const WRITABLE_AGAIN = /can be written again/g;

export const INCIDENTS = {
  async kill_agent({ agent }: Scene) {
    await killAgent(agent);
    await agent.begin();
  },
  async kill_daemon({ daemon }: Scene) {
    await daemon.kill();
    await daemon.begin();
  },
  async kill_both({ agent, daemon }: Scene) {
    await Promise.all([killAgent(agent), daemon.kill()]);
    await Promise.all([agent.begin(), daemon.begin()]);
  },
  async reload({ agent, daemon }: Scene) {
    const before = count(agent, RELOADED);
    agent.running().process.kill('SIGHUP');
    daemon.running().process.kill('SIGHUP');
    await until(() => count(agent, RELOADED) > before, 'the agent to read its filter again');
  },
  async full_disk({ agent, disk, lasts }: Scene) {
    disk.fill();
    await sleep(lasts.fullMs);
    disk.free();
    // The agent may have found room in its own file all the time.
    await until(() => count(agent, WRITABLE_AGAIN) === count(agent, FULL), 'the agent to write again');
  },
  async full_disk_and_kill({ agent, disk, lasts }: Scene) {
    disk.fill();
    await sleep(lasts.fullMs);
    await killAgent(agent);
    disk.free();
    await agent.begin();
  },
  async stall({ agent, lasts, made, ringWrites, toldLosses }: Scene) {
    const told = toldLosses('shed');
    agent.running().process.kill('SIGSTOP');
    const before = made();
    await sleep(lasts.stallMs);
    // A busy machine slows the load down.
    await until(() => made() - before > 1.2 * ringWrites, 'the load to fill the ring');
    agent.running().process.kill('SIGCONT');
    // An agent killed earlier than it has counted the loss leaves a loss of another cause.
    await until(() => toldLosses('shed') > told, 'the agent to tell what the full ring lost');
  },
  async set_clock({ clock, random }: Scene) {
    clock.set(random);
    await sleep(SET_MS);
  },
} as const satisfies Record<string, (scene: Scene) => Promise<void>>;

export type Incident = keyof typeof INCIDENTS;

/** Incidents that leave the processes alive, so that the resources that they take can be judged. */
export const SURVIVED: readonly Incident[] = ['reload', 'full_disk', 'stall', 'set_clock'];

function count({ running }: Part, words: RegExp): number {
  return running().complaints().match(words)?.length ?? 0;
}

async function until(holds: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!holds()) {
    if (performance.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await sleep(20);
  }
}
