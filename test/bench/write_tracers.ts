/**
 * Runs kreplay and its peers around the same load. Each keeps what it records in a file of a temporary folder, and
 * `recorded` is counted from that file rather than from the tool's own report.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type CallLoad, parseCallLoad } from './call_load.ts';
import { linesOf, perfSamples, printingScript, runBpftrace, runPerf } from './peers.ts';
import { KREPLAY, run, start } from './process.ts';
import { recordedWrites } from './recorded_writes.ts';

export interface TracedLoad {
  load: CallLoad;
  /** Writes of the load that are in the file; null for a tool that does not record single writes. */
  recorded: number | null;
  /** User time of the tool, from its start to its end. */
  userNs: number;
}

interface TracerOptions {
  /** The load's program and arguments. */
  load: readonly string[];
  folder: string;
  signal: AbortSignal;
}

export type WriteTracer = (options: TracerOptions) => Promise<TracedLoad>;

export type WriteTracerName = 'untraced' | 'kreplay' | 'bpftrace' | 'bpftrace_histogram' | 'perf_record';

export const WRITE_TRACERS: Readonly<Record<WriteTracerName, WriteTracer>> = {
  untraced: traceNothing,
  kreplay: traceWithKreplay,
  bpftrace: traceWithBpftrace,
  bpftrace_histogram: traceWithHistogram,
  perf_record: traceWithPerf,
};

/** Runs a tracer in a folder of its own. */
export async function trace(name: WriteTracerName, options: TracerOptions): Promise<TracedLoad> {
  const folder = mkdtempSync(join(options.folder, `${name}-`));
  try {
    return await WRITE_TRACERS[name]({ ...options, folder });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function traceNothing({ load, signal }: TracerOptions): Promise<TracedLoad> {
  const { stdout } = await run(load, { signal });
  return { load: parseCallLoad(stdout), recorded: null, userNs: 0 };
}

/** The only system call that the load makes. */
const SYSCALLS = ['write'];

async function traceWithKreplay({ load, folder, signal }: TracerOptions): Promise<TracedLoad> {
  const agent = start([...KREPLAY, 'agent', '--data', folder], { signal, channel: true });
  try {
    await agent.ready;
    const result = parseCallLoad((await run(load, { signal })).stdout);
    agent.stop();
    const { userNs } = await agent.ended;
    const { recorded } = recordedWrites(join(folder, 'recording.kreplay'), [result.pid], result.writes);
    return { load: result, recorded, userNs };
  } finally {
    agent.stop();
  }
}

async function traceWithBpftrace({ load, folder, signal }: TracerOptions): Promise<TracedLoad> {
  const output = join(folder, 'output');
  const ended = await runBpftrace(printingScript(SYSCALLS), { load, output, signal });
  const result = parseCallLoad(ended.stdout);
  const recorded = await linesOf([result.pid], output, signal);
  return { load: result, recorded, userNs: ended.userNs - result.user_ns };
}

/**
 * Keeps no event, so no reader is woken up: the least that bpftrace can cost. Printing wakes up the reader for every
 * event that finds it asleep, which on a virtual machine takes many times as long as the event itself.
 */
const BPFTRACE_HISTOGRAM = `
tracepoint:syscalls:sys_enter_write { @enter[tid] = nsecs; }
tracepoint:syscalls:sys_exit_write {
  $enter = @enter[tid];
  if ($enter) {
    @duration_ns = hist(nsecs - $enter);
    delete(@enter[tid]);
  }
}`;

async function traceWithHistogram({ load, folder, signal }: TracerOptions): Promise<TracedLoad> {
  const ended = await runBpftrace(BPFTRACE_HISTOGRAM, { load, output: join(folder, 'output'), signal });
  const result = parseCallLoad(ended.stdout);
  return { load: result, recorded: null, userNs: ended.userNs - result.user_ns };
}

async function traceWithPerf({ load, folder, signal }: TracerOptions): Promise<TracedLoad> {
  const output = join(folder, 'perf.data');
  const ended = await runPerf(SYSCALLS, { load, output, signal });
  const result = parseCallLoad(ended.stdout);
  const recorded = await perfSamples(SYSCALLS, output, signal);
  return { load: result, recorded, userNs: ended.userNs - result.user_ns };
}
