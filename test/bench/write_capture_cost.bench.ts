/** Measures what tracing costs the traced process: nanoseconds added to a 64-byte write to /dev/null. */
import type { BenchContext, BenchResult } from './bench.ts';
import { buildCallLoad } from './call_load.ts';
import { interleaved } from './rounds.ts';
import { median, sum } from './statistics.ts';
import { nanoseconds, percent } from './table.ts';
import { type TracedLoad, trace, WRITE_TRACERS, type WriteTracerName } from './write_tracers.ts';

export const summary = 'nanoseconds added to a 64-byte write to /dev/null, every write recorded';
export const unit = 'ns';

const ROUNDS = 7;
/** Some 2 M writes under kreplay: its ring is filled and drained a dozen times. */
const LOAD_SECONDS = 1;

const SHARE_OF_BPFTRACE_MAX = 0.45;

const NAMES = Object.keys(WRITE_TRACERS) as WriteTracerName[];
type Peer = Exclude<WriteTracerName, 'untraced'>;
const PEERS = NAMES.filter((name): name is Peer => name !== 'untraced');

export async function run(context: BenchContext): Promise<BenchResult> {
  const { folder, signal, progress } = context;
  const commandOf = await buildCallLoad(context);
  const load = commandOf('write', LOAD_SECONDS);
  const measured = await interleaved(NAMES, ROUNDS, (name, round) => {
    progress(`round ${round + 1} of ${ROUNDS}: ${name}`);
    return trace(name, { load, folder, signal });
  });

  const added = Object.fromEntries(PEERS.map((name) => [name, addedNs(measured, name)])) as Record<Peer, number[]>;
  const lost = Object.fromEntries(PEERS.map((name) => [name, lostWrites(measured[name])])) as Record<Peer, Lost | null>;
  const { kreplay: value, ...anchors } = Object.fromEntries(PEERS.map((name) => [name, median(added[name])])) as Record<
    Peer,
    number
  >;
  const share = value / anchors.bpftrace;
  return {
    value,
    anchors,
    targets: [
      {
        text: `kreplay adds at most ${percent(SHARE_OF_BPFTRACE_MAX)} of what bpftrace adds that prints each write`,
        measured: percent(share),
        met: share <= SHARE_OF_BPFTRACE_MAX,
      },
      {
        text: 'kreplay loses no write',
        measured: `${lost.kreplay!.lost} of ${lost.kreplay!.writes}`,
        met: lost.kreplay!.lost === 0,
      },
    ],
    table: tableOf(measured, added, lost),
    details: { rounds: ROUNDS, load_seconds: LOAD_SECONDS, added_ns: added, lost, measured },
  };
}

type Measured = Record<WriteTracerName, TracedLoad[]>;

interface Lost {
  writes: number;
  lost: number;
}

/** Difference to the untraced load of the same round. */
function addedNs(measured: Measured, name: Peer): number[] {
  return measured[name].map(({ load }, round) => load.median_ns - measured.untraced[round]!.load.median_ns);
}

/** Writes and losses over all rounds; null for a tool that does not record single writes. */
function lostWrites(loads: readonly TracedLoad[]): Lost | null {
  if (loads.some(({ recorded }) => recorded === null)) return null;
  const writes = sum(loads.map(({ load }) => load.writes));
  return { writes, lost: writes - sum(loads.map(({ recorded }) => recorded!)) };
}

function tableOf(measured: Measured, added: Record<Peer, number[]>, lost: Record<Peer, Lost | null>): string[][] {
  const medianNs = (name: WriteTracerName) => median(measured[name].map(({ load }) => load.median_ns));
  const fastestNs = (name: WriteTracerName) => Math.min(...measured[name].map(({ load }) => load.fastest_ns));
  const share = (name: Peer, of: Peer) => percent(median(added[name]) / median(added[of]));
  return [
    ['', 'ns a write', 'added', 'rounds', 'of untraced', 'of bpftrace', 'of its histogram', 'fastest', 'lost'],
    ['untraced', nanoseconds(medianNs('untraced')), '', '', '', '', '', nanoseconds(fastestNs('untraced')), ''],
    ...PEERS.map((name) => [
      name,
      nanoseconds(medianNs(name)),
      nanoseconds(median(added[name])),
      `${nanoseconds(Math.min(...added[name]))}..${nanoseconds(Math.max(...added[name]))}`,
      percent(median(added[name]) / medianNs('untraced')),
      share(name, 'bpftrace'),
      share(name, 'bpftrace_histogram'),
      nanoseconds(fastestNs(name)),
      lossText(lost[name]),
    ]),
  ];
}

function lossText(loss: Lost | null): string {
  return loss === null ? '-' : percent(loss.lost / loss.writes);
}
