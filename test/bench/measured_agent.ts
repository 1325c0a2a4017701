/** Runs a real agent, `kreplay agent`, and samples its resource usage. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { start } from './process.ts';
import type { Percentiles } from './statistics.ts';

const PROBE = join(import.meta.dirname, 'agent_probe.js');
const LAUNCHER = join(import.meta.dirname, '../../build/kreplay');

const SAMPLE_MS = 500;
/** Time until the last recorded events are in the file. */
const SETTLE_MS = 500;

interface Usage {
  userNs: number;
  systemNs: number;
  rssBytes: number;
}

/** Resource usage of the agent during a span of time. */
export interface Span {
  fromNs: bigint;
  toNs: bigint;
  userNs: number;
  systemNs: number;
  /** RSS samples in order of time. */
  rssBytes: number[];
}

export interface MeasuredAgent {
  recording: string;
  /** Returns the result of `work`, and what the agent used from its beginning until it was recorded. */
  during<Result>(work: () => Promise<Result>): Promise<{ result: Result; span: Span }>;
  /** Delay of its event loop during `work`. Watching has a cost, so nothing else is measured then. */
  loopDelay(work: () => Promise<unknown>): Promise<Percentiles>;
  /** Part of the RSS that is counted twice: pages of its rings, which the kernel maps twice. */
  countedTwiceBytes(): Promise<number>;
  /** Memory that the kernel holds for its BPF maps. */
  mapBytes(): Promise<number>;
  stop(): void;
  ended: Promise<unknown>;
}

/** Starts an agent and returns it once it records. */
export async function startAgent(
  folder: string,
  signal: AbortSignal,
  options: readonly string[] = [],
): Promise<MeasuredAgent> {
  // It starts as an operator would start it: the launcher sets the memory limits of Node and malloc.
  const command = ['env', `NODE_OPTIONS=--import=${PROBE}`, LAUNCHER, 'agent', '--data', folder, ...options];
  const agent = start(command, { signal, channel: true });
  const usage = () => agent.ask('usage') as Promise<Usage>;
  try {
    await agent.ready;
  } catch (error) {
    agent.stop();
    throw error;
  }
  return {
    recording: join(folder, 'recording.kreplay'),
    async during(work) {
      const fromNs = wallNs();
      const before = await usage();
      const rssBytes = [before.rssBytes];
      const working = work();
      while (!(await endsWithin(working, SAMPLE_MS))) rssBytes.push((await usage()).rssBytes);
      await sleep(SETTLE_MS);
      const after = await usage();
      const used = { userNs: after.userNs - before.userNs, systemNs: after.systemNs - before.systemNs };
      return { result: await working, span: { fromNs, toNs: wallNs(), ...used, rssBytes } };
    },
    async loopDelay(work) {
      await agent.ask('watch_loop');
      await work();
      return (await agent.ask('loop_delay')) as Percentiles;
    },
    countedTwiceBytes: () => agent.ask('counted_twice_bytes') as Promise<number>,
    mapBytes: () => agent.ask('map_bytes') as Promise<number>,
    stop: agent.stop,
    ended: agent.ended,
  };
}

async function endsWithin(working: Promise<unknown>, ms: number): Promise<boolean> {
  const timeout = new AbortController();
  try {
    return await Promise.race([
      working.then(() => true),
      sleep(ms, false, { signal: timeout.signal }).catch(() => false),
    ]);
  } finally {
    timeout.abort();
  }
}

function wallNs(): bigint {
  return BigInt(Date.now()) * 1_000_000n;
}
