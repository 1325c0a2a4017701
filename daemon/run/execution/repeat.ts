/**
 * Repeats a run, either with other seeds or with different extra latencies. The second form searches for the smallest
 * latency at which the command fails.
 *
 *   low |--------- passes ---------|..?..|----- fails -----| high
 */
import { EXIT } from '../errors.ts';
import { isRequirement } from '../report/closing_line.ts';
import type { Attempt, Repeated } from '../report/result.ts';
import type { Run } from './replay_run.ts';

export interface LatencyRange {
  lowNs: number;
  highNs: number;
}

export interface RepeatedRun {
  repeated: Repeated;
  /**
   * The run to report. In a search, this is the run that failed with the smallest latency, or the run whose unfaithful
   * replay ended the search. Otherwise, it is the first run that failed. If no run failed, it is the last run. A run
   * that ended the repetition, because it has no result or was interrupted by a signal, is always the run to report.
   */
  run: Run;
}

/** The search ends when the unknown range is this small, because a more exact result is of no use. */
export const RESOLUTION_NS = 1000;

type Bounds = Pick<Repeated, 'passes_ns' | 'fails_ns'>;

type StartRun = (seed: bigint, extraNs: number) => Promise<Run>;

interface RepeatOptions {
  times: number;
  seed: bigint;
  extraNs: number;
  range: LatencyRange | undefined;
  onAttempt: (attempt: Attempt, number: number) => void;
}

export async function repeatRun(start: StartRun, options: RepeatOptions): Promise<RepeatedRun> {
  const { times, seed, extraNs, range, onAttempt } = options;
  const attempts: Attempt[] = [];
  const state: Bounds = { passes_ns: null, fails_ns: null };
  let shown: Run | undefined;
  for (let number = 0; number < times; number++) {
    const latencyNs = range ? chooseNextLatency(range, state) : extraNs;
    if (latencyNs === undefined) break;
    const oneSeed = range ? seed : computeSeed(seed, number);
    const run = await start(oneSeed, latencyNs);
    const { ended, verdict } = run.result;
    attempts.push({ seed: oneSeed, extra_latency_ns: latencyNs, code: ended?.code ?? null, verdict });
    onAttempt(attempts.at(-1)!, number);
    const isFailing = run.exitCode !== 0;
    // Without an end of the command, or after a signal that was forwarded to it, the run neither passed nor failed.
    if (!ended || run.wasSignalled) return { repeated: { attempts, ...state, unknown_ns: null }, run };
    if (range && isOnlyUnfaithful(run)) return { repeated: { attempts, ...state, unknown_ns: latencyNs }, run };
    if (isFailing) state.fails_ns = Math.min(latencyNs, state.fails_ns ?? latencyNs);
    else state.passes_ns = Math.max(latencyNs, state.passes_ns ?? latencyNs);
    const isBetter = isFailing && (shown?.exitCode === 0 || range !== undefined);
    if (!shown || isBetter || (!isFailing && shown.exitCode === 0)) shown = run;
  }
  return { repeated: { attempts, ...state, unknown_ns: null }, run: shown! };
}

/**
 * Returns whether the command passed but the run did not replay enough of the incident. Such a run does not show
 * whether the command passes at this latency.
 */
function isOnlyUnfaithful({ exitCode, result: { gates } }: Run): boolean {
  return exitCode === EXIT.gateNotMet && gates.every((gate) => gate.met || isRequirement(gate));
}

/**
 * Returns the next latency to try: the two ends of the range first, then the middle of the unknown range. Returns
 * undefined when the search is complete.
 */
export function chooseNextLatency(
  { lowNs, highNs }: LatencyRange,
  { passes_ns, fails_ns }: Bounds,
): number | undefined {
  if (fails_ns === null) return passes_ns === null ? highNs : undefined;
  if (passes_ns === null) return fails_ns > lowNs ? lowNs : undefined;
  if (fails_ns - passes_ns <= RESOLUTION_NS) return undefined;
  const middle = (passes_ns + fails_ns) / 2;
  const rounded = Math.round(middle / RESOLUTION_NS) * RESOLUTION_NS;
  return rounded > passes_ns && rounded < fails_ns ? rounded : Math.round(middle);
}

const SEEDS = 2n ** 64n;

function computeSeed(seed: bigint, number: number): bigint {
  return (seed + BigInt(number)) % SEEDS;
}
