/**
 * kreplay and its peers, each run around the same load. Every one keeps what it records in a file of a temporary folder,
 * and `recorded` is counted from that file, not believed from what the tool says.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { openReader } from '../../agent/recording/reader.ts';
import { BenchError } from './bench.ts';
import { type Ended, run, start } from './process.ts';
import { parseWriteLoad, type WriteLoad } from './write_load.ts';

export interface TracedLoad {
  load: WriteLoad;
  /** Writes of the load that are in the file; null for what keeps no single ones. */
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
  return { load: parseWriteLoad(stdout), recorded: null, userNs: 0 };
}

const KREPLAY = join(import.meta.dirname, '../../kreplay.ts');

async function traceWithKreplay({ load, folder, signal }: TracerOptions): Promise<TracedLoad> {
  const agent = start([process.execPath, KREPLAY, 'agent', '--data', folder], { signal, channel: true });
  try {
    await agent.ready;
    const result = parseWriteLoad((await run(load, { signal })).stdout);
    agent.stop();
    const { userNs } = await agent.ended;
    return { load: result, recorded: countRecorded(join(folder, 'recording.kreplay'), result), userNs };
  } finally {
    agent.stop();
  }
}

/** Throws when the recording lacks a write and does not say so, or holds one that was never made. */
function countRecorded(path: string, { pid, writes }: WriteLoad): number {
  const reader = openReader(path);
  try {
    let recorded = 0;
    const filter = { pid, eventTypes: ['sys_write' as const] };
    for (const block of reader.scan({ filter, columns: ['pid'] })) recorded += block.rowCount;
    // Losses have no owner: those of other processes count too, and a definition is not an event.
    const losses = reader.losses().filter(({ cause }) => cause !== 'definition_lost');
    const lost = losses.reduce((sum, { count }) => sum + count, 0);
    if (recorded > writes || recorded + lost < writes) {
      throw new BenchError(
        `kreplay does not add up: ${writes} writes were made, ${recorded} are in the recording, ${lost} are recorded as lost`,
      );
    }
    return recorded;
  } finally {
    reader.close();
  }
}

/**
 * A joined line for each write of the host, as kreplay has a record for each. The start is kept in one map, with the
 * descriptor in a tuple: one update, one lookup and one deletion are the least that bpftrace can do.
 *
 * -B full: with line buffering every line is a write, which is traced and printed, for ever.
 */
const BPFTRACE_PRINT = `
tracepoint:syscalls:sys_enter_write { @enter[tid] = (nsecs, args->fd); }
tracepoint:syscalls:sys_exit_write {
  $enter = @enter[tid];
  if ($enter.0) {
    printf("%d %d %d %d\\n", pid, $enter.1, args->ret, nsecs - $enter.0);
    delete(@enter[tid]);
  }
}`;

async function traceWithBpftrace({ load, folder, signal }: TracerOptions): Promise<TracedLoad> {
  const output = join(folder, 'output');
  const ended = await runBpftrace(BPFTRACE_PRINT, { load, folder, signal }, output);
  const result = parseWriteLoad(ended.stdout);
  // awk exits with 0 when nothing matches, grep -c does not.
  const count = await run(['awk', `$1 == ${result.pid} { n++ } END { print n + 0 }`, output], { signal });
  return { load: result, recorded: Number(count.stdout), userNs: ended.userNs - result.user_ns };
}

/**
 * Keeps no event, so no reader is woken up: the least that bpftrace can cost. Printing wakes its reader for every event
 * that finds it asleep, which on a virtual machine takes many times what the event itself does.
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
  const ended = await runBpftrace(BPFTRACE_HISTOGRAM, { load, folder, signal }, join(folder, 'output'));
  const result = parseWriteLoad(ended.stdout);
  return { load: result, recorded: null, userNs: ended.userNs - result.user_ns };
}

function runBpftrace(script: string, { load, signal }: TracerOptions, output: string): Promise<Ended> {
  const program = ['bpftrace', '-B', 'full', '-o', output, '-c', load.join(' '), '-e', script];
  return run(program, { signal, tracefs: true });
}

const PERF_EVENTS = ['syscalls:sys_enter_write', 'syscalls:sys_exit_write'];

/** Of the load alone; perf follows a process, not the host. */
async function traceWithPerf({ load, folder, signal }: TracerOptions): Promise<TracedLoad> {
  const output = join(folder, 'perf.data');
  const events = PERF_EVENTS.flatMap((event) => ['-e', event]);
  const inTracefs = { signal, tracefs: true };
  const ended = await run(['perf', 'record', ...events, '-o', output, '--', ...load], inTracefs);
  const result = parseWriteLoad(ended.stdout);
  const { stdout } = await run(['perf', 'report', '--stats', '-i', output], inTracefs);
  const samples = PERF_EVENTS.map((event) =>
    Number(new RegExp(`^${event} stats:\\s+SAMPLE events:\\s+(\\d+)`, 'm').exec(stdout)?.[1] ?? 0),
  );
  return { load: result, recorded: Math.min(...samples), userNs: ended.userNs - result.user_ns };
}
