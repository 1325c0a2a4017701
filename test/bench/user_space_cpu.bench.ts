/** Measures what recording costs in user space: CPU time per recorded write, at the rate at which one CPU can write. */
import type { BenchContext, BenchResult } from './bench.ts';
import { buildCallLoad } from './call_load.ts';
import { interleaved } from './rounds.ts';
import { median } from './statistics.ts';
import { nanoseconds } from './table.ts';
import { trace } from './write_tracers.ts';

export const summary = 'user-space CPU time for each recorded write at full rate';
export const unit = 'ns';

const ROUNDS = 3;
const LOAD_SECONDS = 2;

const NAMES = ['kreplay', 'bpftrace', 'perf_record'] as const;

export async function run(context: BenchContext): Promise<BenchResult> {
  const { folder, signal, progress } = context;
  const commandOf = await buildCallLoad(context);
  const traceFor = (name: (typeof NAMES)[number], seconds: number) =>
    trace(name, { load: commandOf('write', seconds), folder, signal });

  const measured = await interleaved(NAMES, ROUNDS, async (name, round) => {
    progress(`round ${round + 1} of ${ROUNDS}: ${name}`);
    // The run without a load measures the start and end of the tool, which no event causes.
    const idle = await traceFor(name, 0);
    const busy = await traceFor(name, LOAD_SECONDS);
    return { userNs: busy.userNs - idle.userNs, recorded: busy.recorded!, writes: busy.load.writes };
  });

  const costs = Object.fromEntries(
    NAMES.map((name) => [name, measured[name].map(({ userNs, recorded }) => userNs / recorded)]),
  ) as Record<(typeof NAMES)[number], number[]>;
  return {
    value: median(costs.kreplay),
    anchors: { bpftrace: median(costs.bpftrace), perf_record: median(costs.perf_record) },
    targets: [],
    table: [
      ['', 'ns a recorded write', 'rounds', 'writes/s', 'recorded/s'],
      ...NAMES.map((name) => [
        name,
        nanoseconds(median(costs[name])),
        `${nanoseconds(Math.min(...costs[name]))}..${nanoseconds(Math.max(...costs[name]))}`,
        (median(measured[name].map(({ writes }) => writes)) / LOAD_SECONDS).toFixed(0),
        (median(measured[name].map(({ recorded }) => recorded)) / LOAD_SECONDS).toFixed(0),
      ]),
    ],
    details: { rounds: ROUNDS, load_seconds: LOAD_SECONDS, cost_ns: costs, measured },
  };
}
