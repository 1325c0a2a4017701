/**
 * Measures live what it takes to record a busy service with owners: the agent's CPU time, memory, event loop and file.
 */
import { join } from 'node:path';
import type { BenchContext, BenchResult, Target } from './bench.ts';
import { type PeerCost, type PeerName, peerCost } from './capture_peers.ts';
import {
  type BurstSession,
  burstSession,
  type Kept,
  type PacedSession,
  pacedSession,
  type Used,
} from './capture_session.ts';
import type { StoreCost } from './metered_writer.ts';
import { median } from './statistics.ts';
import { runStore } from './store.ts';
import { megabytes, nanoseconds, percent, twoDigits } from './table.ts';
import { buildTransactionLoad } from './transaction_load.ts';

export const summary = "the agent's user CPU time for each recorded write of labelled transactions, at 100 k a second";
export const unit = 'ns';

const RATE = 100_000;
const HIGH_RATE = 300_000;
const SECONDS = 10;
const BURST_EVENTS = 1_000_000;
const PEER_SECONDS = 5;
/** Most events of the recording that are copied into rows. */
const COPIED_EVENTS_MAX = 500_000;

const USER_NS_MAX = 500;
const EVENT_BYTES_MAX = 12;
const RSS_BYTES_MAX = 150e6;
const RSS_GROWTH_MAX = 0.1;
const LOOP_DELAY_NS_MAX = 20e6;
const IDLE_RSS_BYTES_MAX = 100e6;
const IDLE_CPU_MAX = 0.005;

/** Share of the requested rate that the load must reach. */
const REACHED_SHARE = 0.98;

interface Measured {
  paced: PacedSession;
  high: PacedSession;
  burst: BurstSession;
  rowEach: StoreCost;
  peers: Record<PeerName, PeerCost>;
}

export async function run(context: BenchContext): Promise<BenchResult> {
  const { folder, signal, progress, sizes, loadCpu } = context;
  const program = await buildTransactionLoad(context);
  const seconds = sizes.seconds ?? SECONDS;
  const options = { folder, signal, loadCpu, program };
  progress(`kreplay at ${RATE} events/s`);
  const recording = join(folder, 'recording');
  const paced = await pacedSession({ ...options, keepAs: recording }, RATE, seconds);
  progress(`kreplay at ${HIGH_RATE} events/s`);
  const high = await pacedSession(options, HIGH_RATE, seconds);
  progress(`kreplay, ${BURST_EVENTS} events at once`);
  const burst = await burstSession(options, BURST_EVENTS);
  const peer = (name: PeerName) => {
    progress(`${name} at ${RATE} events/s`);
    return peerCost(name, { ...options, rate: RATE, seconds: PEER_SECONDS });
  };
  const peers = { perf_record: await peer('perf_record'), bpftrace: await peer('bpftrace') };
  progress('a row each');
  const copy = { from: recording, path: join(folder, 'rows'), eventsMax: COPIED_EVENTS_MAX, eventsPerFlush: 1000 };
  const rowEach = await runStore('row_each', 'copy', copy, signal);
  const measured = { paced, high, burst, rowEach, peers };
  return {
    value: perEvent(paced.steady).userNs,
    anchors: {
      perf_record: peers.perf_record.userNs,
      bpftrace: peers.bpftrace.userNs,
      row_each_store_alone: rowEach.userNs,
    },
    targets: targetsOf(measured, seconds),
    table: tableOf(measured),
    details: { seconds, measured },
  };
}

const HEADING = ['', 'user ns an event', 'system', 'bytes', 'writes', 'lost', 'MB of memory'];

/** Costs per event. */
interface Costs {
  userNs: number;
  systemNs: number;
  fileBytes: number;
}

function perEvent({ userNs, systemNs, events }: Used): { userNs: number; systemNs: number } {
  return { userNs: userNs / events, systemNs: systemNs / events };
}

function eventBytes({ fileBytes, fileEvents }: Kept): number {
  return fileBytes / fileEvents;
}

function tableOf({ paced, high, burst, rowEach, peers }: Measured): string[][] {
  const line = (text: string, { userNs, systemNs, fileBytes }: Costs, ...others: string[]) => {
    const cells = [text, nanoseconds(userNs), nanoseconds(systemNs), twoDigits(fileBytes), ...others];
    return HEADING.map((_, column) => cells[column] ?? '');
  };
  const keptText = ({ made, recorded }: { made: number; recorded: number }) => [
    String(made),
    percent((made - recorded) / made),
  ];
  const ofKreplay = (session: PacedSession | BurstSession, used: Used) =>
    line(
      `kreplay, ${session.rate.toFixed(0)}/s`,
      { ...perEvent(used), fileBytes: eventBytes(session) },
      ...keptText(session),
      megabytes(Math.max(...used.rssBytes)),
    );
  return [
    HEADING,
    ofKreplay(paced, paced.steady),
    ofKreplay(high, high.steady),
    ofKreplay(burst, burst.burst),
    line(`perf record, ${RATE}/s`, peers.perf_record, ...keptText(peers.perf_record)),
    line(`bpftrace, a line each, ${RATE}/s`, peers.bpftrace, ...keptText(peers.bpftrace)),
    line('only to store them: a row each', { ...rowEach, fileBytes: rowEach.fileBytes / rowEach.events }),
  ];
}

function targetsOf({ paced, high, burst }: Measured, seconds: number): Target[] {
  const { idle } = paced;
  const rss = (...used: Used[]) => Math.max(...used.flatMap(({ rssBytes }) => rssBytes));
  const { countedTwiceBytes } = paced;
  const twice = countedTwiceBytes > 0 ? `${mb(countedTwiceBytes)} of it are pages of the rings, counted twice` : '';
  const { p50, p99, max } = paced.loopDelay;
  const others = `${((idle.events * 1e9) / idle.wallNs).toFixed(0)} events/s of others`;
  return [
    atMost(`user CPU of an event at ${RATE}/s`, perEvent(paced.steady).userNs, USER_NS_MAX, ns, paceOf(paced, RATE)),
    atMost(
      `user CPU of an event at ${HIGH_RATE}/s`,
      perEvent(high.steady).userNs,
      USER_NS_MAX,
      ns,
      paceOf(high, HIGH_RATE),
    ),
    atMost('bytes of the file for an event', eventBytes(paced), EVENT_BYTES_MAX, twoDigits),
    atMost(`writes lost at ${HIGH_RATE}/s for ${seconds} s`, lostOf(high), 0, String, paceOf(high, HIGH_RATE)),
    atMost(`writes lost of ${BURST_EVENTS} at once`, lostOf(burst), 0, String),
    atMost(`labelled writes without an owner at ${HIGH_RATE}/s`, high.labelled - high.owned, 0, String),
    atMost('memory', rss(paced.steady, high.steady, burst.burst), RSS_BYTES_MAX, mb, twice),
    atMost(`growth of memory at ${HIGH_RATE}/s`, growth(high.steady.rssBytes), RSS_GROWTH_MAX, percent),
    atMost(`delay of the event loop at ${RATE}/s`, max, LOOP_DELAY_NS_MAX, ms, `p50 ${ms(p50)}, p99 ${ms(p99)}`),
    atMost('memory when nothing happens', rss(idle), IDLE_RSS_BYTES_MAX, mb, twice),
    atMost('of a CPU when nothing happens', (idle.userNs + idle.systemNs) / idle.wallNs, IDLE_CPU_MAX, percent, others),
  ];
}

function atMost(text: string, value: number, most: number, format: (value: number) => string, remark = ''): Target {
  const measured = `${format(value)}${remark && ` (${remark})`}`;
  return { text: `${text}: at most ${format(most)}`, measured, met: value <= most };
}

const ns = (value: number) => `${nanoseconds(value)} ns`;
const ms = (value: number) => `${(value / 1e6).toFixed(1)} ms`;
const mb = (value: number) => `${megabytes(value)} MB`;

/** A remark for a load that one CPU could not make at the requested rate. */
function paceOf({ rate }: PacedSession, asked: number): string {
  return rate < asked * REACHED_SHARE ? `the load only came to ${rate.toFixed(0)}/s` : '';
}

function lostOf({ made, recorded }: Kept): number {
  return made - recorded;
}

/** Relative growth from the first quarter to the last. */
function growth(values: readonly number[]): number {
  const quarter = Math.ceil(values.length / 4);
  return median(values.slice(-quarter)) / median(values.slice(0, quarter)) - 1;
}
