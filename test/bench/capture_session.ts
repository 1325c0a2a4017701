/** Runs a real agent that records a real load, from its start to its end. */
import { mkdtempSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BenchContext, BenchError } from './bench.ts';
import { type MeasuredAgent, type Span, startAgent } from './measured_agent.ts';
import { run } from './process.ts';
import { eventsBetween, recordedWrites } from './recorded_writes.ts';
import { type Percentiles, sum } from './statistics.ts';
import { LOAD_FOLDER, parseTransactionLoad, type TransactionLoad } from './transaction_load.ts';

/** Time until the work that the agent's start causes is done. */
const STARTED_MS = 10_000;
const IDLE_MS = 10_000;
/** Time until V8 has compiled the agent's code. */
const WARM_SECONDS = 2;
const WATCHED_SECONDS = 5;

export interface SessionOptions extends Pick<BenchContext, 'folder' | 'signal' | 'loadCpu'> {
  /** The load's program. */
  program: string;
  /** Path to move the recording to; without it the recording is removed. */
  keepAs?: string;
}

/** Resource usage of the agent during a span. */
export interface Used extends Omit<Span, 'fromNs' | 'toNs'> {
  wallNs: number;
  /** Recorded events of all processes, since all of them contribute to the cost. */
  events: number;
}

export interface Kept {
  /** Writes that the loads made. */
  made: number;
  recorded: number;
  /** Recorded writes that were made under a label, and those that have an owner in the recording. */
  labelled: number;
  owned: number;
  fileBytes: number;
  fileEvents: number;
}

export interface PacedSession extends Kept {
  idle: Used;
  steady: Used;
  loopDelay: Percentiles;
  countedTwiceBytes: number;
  /** Events per second that the load reached. */
  rate: number;
}

export interface BurstSession extends Kept {
  burst: Used;
  rate: number;
}

/** Idles, then runs a steady load, then a load during which the event loop is watched. */
export function pacedSession(options: SessionOptions, rate: number, seconds: number): Promise<PacedSession> {
  return withAgent(options, async (agent, load) => {
    await sleep(STARTED_MS);
    const idle = await agent.during(() => sleep(IDLE_MS));
    await load(rate * WARM_SECONDS, rate);
    const steady = await agent.during(() => load(rate * seconds, rate));
    const loopDelay = await agent.loopDelay(() => load(rate * WATCHED_SECONDS, rate));
    const facts = { loopDelay, countedTwiceBytes: await agent.countedTwiceBytes(), rate: rateOf(steady.result) };
    return { spans: { idle: idle.span, steady: steady.span }, facts };
  });
}

/** An agent that has just started meets as many events as one CPU can make. */
export function burstSession(options: SessionOptions, events: number): Promise<BurstSession> {
  return withAgent(options, async (agent, load) => {
    const { result, span } = await agent.during(() => load(events, 0));
    return { spans: { burst: span }, facts: { rate: rateOf(result) } };
  });
}

function rateOf({ events, elapsed_ns }: TransactionLoad): number {
  return (events * 1e9) / elapsed_ns;
}

type Load = (events: number, rate: number) => Promise<TransactionLoad>;

async function withAgent<Name extends string, Facts extends object>(
  { folder, signal, loadCpu, program, keepAs }: SessionOptions,
  work: (agent: MeasuredAgent, load: Load) => Promise<{ spans: Record<Name, Span>; facts: Facts }>,
): Promise<Kept & Facts & Record<Name, Used>> {
  const dataFolder = mkdtempSync(join(folder, 'capture-'));
  const agent = await startAgent(dataFolder, signal);
  const loadFolder = mkdtempSync(LOAD_FOLDER);
  const loads: TransactionLoad[] = [];
  try {
    const { spans, facts } = await work(agent, async (events, rate) => {
      const { stdout } = await run([program, ...[loadCpu, loadFolder, events, rate].map(String)], { signal });
      const load = parseTransactionLoad(stdout);
      loads.push(load);
      return load;
    });
    agent.stop();
    await agent.ended;
    const path = agent.recording;
    const kept = keptOf(path, loads);
    const used = Object.entries<Span>(spans).map(([name, span]) => [name, usedOf(path, span)]);
    if (keepAs) renameSync(path, keepAs);
    return { ...kept, ...facts, ...(Object.fromEntries(used) as Record<Name, Used>) };
  } finally {
    agent.stop();
    // Its failure has already been reported.
    await agent.ended.catch(() => undefined);
    rmSync(loadFolder, { recursive: true });
    rmSync(dataFolder, { recursive: true });
  }
}

function keptOf(path: string, loads: readonly TransactionLoad[]): Kept {
  const made = sum(loads.map(({ events }) => events));
  const labelled = sum(loads.map((load) => load.labelled));
  const pids = loads.flatMap((load) => load.pids);
  const { recorded, owned } = recordedWrites(path, pids, made);
  if (owned > labelled) throw new BenchError(`${owned} writes have an owner, but only ${labelled} were labelled`);
  const fileEvents = eventsBetween(path, 0n, 2n ** 63n);
  return { made, recorded, labelled, owned, fileBytes: statSync(path).size, fileEvents };
}

function usedOf(path: string, { fromNs, toNs, ...used }: Span): Used {
  return { ...used, wallNs: Number(toNs - fromNs), events: eventsBetween(path, fromNs, toNs) };
}
