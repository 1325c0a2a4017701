/** Measures what perf and bpftrace need to record the writes of the same load. */
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchContext } from './bench.ts';
import { linesOf, type PeerOptions as PeerRun, perfSamples, printingScript, runBpftrace, runPerf } from './peers.ts';
import type { Ended } from './process.ts';
import { LOAD_FOLDER, LOAD_SYSCALLS, parseTransactionLoad } from './transaction_load.ts';

export type PeerName = 'perf_record' | 'bpftrace';

export interface PeerCost {
  /** Includes marker lines, which are ordinary writes to these tools. */
  made: number;
  recorded: number;
  /** Time per recorded write, without the tool's start and end. */
  userNs: number;
  systemNs: number;
  fileBytes: number;
}

interface PeerOptions extends Pick<BenchContext, 'folder' | 'signal' | 'loadCpu'> {
  /** The load's program. */
  program: string;
  rate: number;
  seconds: number;
}

export async function peerCost(name: PeerName, { rate, seconds, ...options }: PeerOptions): Promise<PeerCost> {
  const idle = await runPeer(name, options, 0, rate);
  const { made, recorded, ...busy } = await runPeer(name, options, rate * seconds, rate);
  return {
    made,
    recorded,
    userNs: (busy.userNs - idle.userNs) / recorded,
    systemNs: (busy.systemNs - idle.systemNs) / recorded,
    fileBytes: (busy.fileBytes - idle.fileBytes) / recorded,
  };
}

interface Peer {
  run: (options: PeerRun) => Promise<Ended>;
  /** Number of calls of these processes in the file. */
  count: (pids: readonly number[], output: string, signal: AbortSignal) => Promise<number>;
}

const PEERS: Readonly<Record<PeerName, Peer>> = {
  perf_record: {
    run: (options) => runPerf(LOAD_SYSCALLS, options),
    // perf also follows the load's parent, which prints one line.
    count: async (_pids, output, signal) => (await perfSamples(LOAD_SYSCALLS, output, signal)) - 1,
  },
  bpftrace: { run: (options) => runBpftrace(printingScript(LOAD_SYSCALLS), options), count: linesOf },
};

async function runPeer(
  name: PeerName,
  { folder: parent, signal, loadCpu, program }: Omit<PeerOptions, 'rate' | 'seconds'>,
  events: number,
  rate: number,
) {
  const folder = mkdtempSync(join(parent, `${name}-`));
  const loadFolder = mkdtempSync(LOAD_FOLDER);
  try {
    const output = join(folder, 'output');
    const load = [program, ...[loadCpu, loadFolder, events, rate].map(String)];
    const ended = await PEERS[name].run({ load, output, signal });
    const { pids, ...made } = parseTransactionLoad(ended.stdout);
    return {
      made: made.events + made.markers,
      recorded: await PEERS[name].count(pids, output, signal),
      userNs: ended.userNs - made.user_ns,
      systemNs: ended.systemNs - made.system_ns,
      fileBytes: statSync(output).size,
    };
  } finally {
    rmSync(loadFolder, { recursive: true });
    rmSync(folder, { recursive: true });
  }
}
