/** Measures what attribution costs the traced process: nanoseconds added to a call, with all of attribution on. */
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchContext, BenchResult } from './bench.ts';
import { buildCallLoad, type Call, parseCallLoad } from './call_load.ts';
import { startAgent } from './measured_agent.ts';
import { printingScript, runBpftrace } from './peers.ts';
import { run as runProgram } from './process.ts';
import { interleaved } from './rounds.ts';
import { median } from './statistics.ts';
import { nanoseconds, percent } from './table.ts';

export const summary = 'nanoseconds added to calls by attribution, all layers on';
export const unit = 'ns';

const ROUNDS = 5;
const LOAD_SECONDS = 1;

const SHARE_OF_BPFTRACE_MAX = 1 / 3;
const UNRECORDED_NS_MAX = 70;

const CALLS: Readonly<Record<Call, string>> = {
  write: 'write to /dev/null, recorded',
  labelled_write: 'the same of a labelled thread',
  getppid: 'call that is not recorded',
  read: '512-byte read from a socket, no request',
  serve: 'the same, and a send',
  serve_request: '512-byte request with a traceparent, and a send',
  dirty_page: 'dirtied page of a mapped file',
  exec: 'fork, exec and exit',
};
const NAMES = Object.keys(CALLS) as Call[];

const TRACERS = ['untraced', 'kreplay', 'kreplay, no requests read', 'bpftrace'] as const;
type Tracer = (typeof TRACERS)[number];

/** Options of the agent; by default it reads no requests. */
const AGENT_OPTIONS: Partial<Record<Tracer, readonly string[]>> = {
  kreplay: ['--http-services', '*'],
  'kreplay, no requests read': [],
};

/**
 * bpftrace's equivalent: it prints a line where kreplay records or inspects a call, and runs only its programs
 * elsewhere.
 */
const PRINT_READS = printingScript(['recvfrom']);
const SCRIPTS: Readonly<Record<Call, string>> = {
  write: printingScript(['write']),
  labelled_write: printingScript(['write']),
  getppid:
    'tracepoint:raw_syscalls:sys_enter, tracepoint:raw_syscalls:sys_exit { if (args->id == 1) { @ = count(); } }',
  read: PRINT_READS,
  serve: PRINT_READS,
  serve_request: PRINT_READS,
  dirty_page: 'tracepoint:writeback:writeback_dirty_folio { @[args->ino] = tid; }',
  exec: 'tracepoint:syscalls:sys_enter_execve { printf("%d ", pid); join(args->argv); }',
};

type Timed = Record<Call, number>;

export async function run(context: BenchContext): Promise<BenchResult> {
  const { folder, signal, progress } = context;
  const commandOf = await buildCallLoad(context);
  const mapBytes: number[] = [];

  async function timeEach(time: (load: string[], call: Call) => Promise<{ stdout: string }>, progressOf: string) {
    const timed: Partial<Timed> = {};
    for (const call of NAMES) {
      progress(`${progressOf}: ${call}`);
      timed[call] = parseCallLoad((await time(commandOf(call, LOAD_SECONDS), call)).stdout).median_ns;
    }
    return timed as Timed;
  }

  async function timeUnder(tracer: Tracer, round: number): Promise<Timed> {
    const doing = `round ${round + 1} of ${ROUNDS}, ${tracer}`;
    if (tracer === 'untraced') return timeEach((load) => runProgram(load, { signal }), doing);
    const own = mkdtempSync(join(folder, 'traced-'));
    try {
      if (tracer === 'bpftrace') {
        const output = join(own, 'output');
        return await timeEach((load, call) => runBpftrace(SCRIPTS[call], { load, output, signal }), doing);
      }
      const agent = await startAgent(own, signal, AGENT_OPTIONS[tracer]);
      try {
        const timed = await timeEach((load) => runProgram(load, { signal }), doing);
        if (tracer === 'kreplay') mapBytes.push(await agent.mapBytes());
        return timed;
      } finally {
        agent.stop();
        await agent.ended;
      }
    } finally {
      rmSync(own, { recursive: true, force: true });
    }
  }

  const measured = await interleaved(TRACERS, ROUNDS, timeUnder);
  const addedNs = (tracer: Tracer, call: Call) =>
    median(measured[tracer].map((timed, round) => timed[call] - measured.untraced[round]![call]));
  const share = addedNs('kreplay', 'labelled_write') / addedNs('bpftrace', 'labelled_write');
  const unrecordedNs = addedNs('kreplay', 'getppid');
  return {
    value: addedNs('kreplay', 'labelled_write'),
    anchors: { bpftrace: addedNs('bpftrace', 'labelled_write') },
    targets: [
      {
        text: 'a recorded write with all of attribution: at most a third of what bpftrace adds that prints each',
        measured: percent(share),
        met: share <= SHARE_OF_BPFTRACE_MAX,
      },
      {
        text: `a call that is not recorded: at most ${UNRECORDED_NS_MAX} ns`,
        measured: `${nanoseconds(unrecordedNs)} ns (bpftrace that looks at each call: ${nanoseconds(addedNs('bpftrace', 'getppid'))} ns)`,
        met: unrecordedNs <= UNRECORDED_NS_MAX,
      },
    ],
    table: [
      ['', ...TRACERS.map((tracer) => (tracer === 'untraced' ? tracer : `+ ${tracer}`))],
      ...NAMES.map((call) => [
        CALLS[call],
        nanoseconds(median(measured.untraced.map((timed) => timed[call]))),
        ...TRACERS.slice(1).map((tracer) => nanoseconds(addedNs(tracer, call))),
      ]),
      ['kernel memory of all maps, MB', '', (median(mapBytes) / 1e6).toFixed(1), '', ''],
    ],
    details: { rounds: ROUNDS, load_seconds: LOAD_SECONDS, map_bytes: mapBytes, measured },
  };
}
