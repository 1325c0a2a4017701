/** Judges whether the incident was replayed and whether the gates are met. */
import type { RunnerStatus } from '../control_lines.ts';
import { formatErrorFigures } from './error_figures.ts';
import type { Figures } from './figures.ts';
import { nameReasons } from './names.ts';

export const VERDICTS = ['replayed', 'partial', 'diverged', 'unsupported'] as const;
export type Verdict = (typeof VERDICTS)[number];

/** The start of the reason for a machine that is too noisy; `isOnlyNoisy` recognizes the reason by this text. */
const NOISY = 'the machine is too noisy';
const REPLAYED_SHARE = 0.9;
const SLOWEST_SHARE = 0.8;
export const PARTIAL_SHARE = 0.5;
/**
 * Minimum duration of the events to which noise is compared, as a share of the slowest event's duration. Shorter events
 * do not make up the incident.
 */
const MATTERS_SHARE = 0.1;

export interface Judgement {
  /** The verdict on the run; `failed` means that the runner itself failed. */
  verdict: Verdict | 'failed';
  /** Reasons why the verdict is not better, and warnings. */
  reasons: string[];
}

/** Modes in which calls are not matched with single events, so only total times can be compared. */
export const MODES_OF_SUMS: readonly string[] = ['dist', 'stall'];

export function judge(figures: Figures, mode: string): Judgement {
  if (figures.planned_events > 0 && figures.considered_events === 0)
    return { verdict: 'diverged', reasons: ['no wait of the incident is as long as the threshold'] };
  const isOfSums = MODES_OF_SUMS.includes(mode);
  const share = isOfSums ? computeSumsShare(figures) : (figures.matched_by_duration ?? figures.matched_by_count ?? 0);
  const { slowest, slowest_delivered } = figures;
  const reasons: string[] = [];
  const what = isOfSums ? 'injected and planned time differ: the smaller is' : 'calls that they belong to got';
  if (share < REPLAYED_SHARE)
    reasons.push(`${what} ${percent(share)} of what was planned, not ${percent(REPLAYED_SHARE)}`);
  const isSlowestThere = isOfSums || slowest_delivered >= slowest.length * SLOWEST_SHARE;
  if (!isSlowestThere) reasons.push(`${slowest_delivered} of the ${slowest.length} slowest events were delivered`);
  const isNoisy = findNoiseReason(figures);
  if (isNoisy) reasons.push(isNoisy);
  if (!isOfSums) reasons.push(...listUncertainReasons(figures));
  const errors = formatErrorFigures(figures.errors);
  if (errors) reasons.push(errors);
  if (!isOfSums) reasons.push(...nameReasons(figures.names));
  if (reasons.length === 0) return { verdict: 'replayed', reasons };
  return { verdict: share >= PARTIAL_SHARE ? 'partial' : 'diverged', reasons };
}

/**
 * Maximum number of interrupted calls, and their maximum share of all calls. If both are exceeded, the interruptions
 * changed the build's behaviour too much for a replay.
 */
const INTERRUPTED_MAX = 5;
const INTERRUPTED_SHARE_MAX = 0.005;

/**
 * Takes into account the calls that a signal interrupted before the helper received them. Such a call to a file fails
 * with EINTR if the signal handler was installed without SA_RESTART; without the helper, it would succeed. The count
 * may be too high, because it also includes threads that ended at that moment and some calls that the kernel restarted.
 */
export function addInterrupted(
  { verdict, reasons }: Judgement,
  { uncovered }: Pick<RunnerStatus, 'uncovered'>,
  calls: number,
): Judgement {
  const count = uncovered.get('interrupted') ?? 0;
  if (count === 0) return { verdict, reasons };
  const reason = `calls that signals interrupted before they were seen, and that failed with EINTR: up to ${count}`;
  const isMuch = count > Math.max(INTERRUPTED_MAX, calls * INTERRUPTED_SHARE_MAX);
  return { verdict: isMuch && verdict === 'replayed' ? 'partial' : verdict, reasons: [...reasons, reason] };
}

function computeSumsShare({ injected_ns, planned_ns }: Figures): number {
  const smaller = Math.min(injected_ns, planned_ns);
  const larger = Math.max(injected_ns, planned_ns);
  return larger === 0 ? 1 : smaller / larger;
}

/** Returns whether noise of the machine is the only reason why a run is partial. */
export function isOnlyNoisy({ verdict, reasons }: Judgement): boolean {
  return verdict === 'partial' && reasons.every((reason) => reason.startsWith(NOISY));
}

/**
 * Returns the reason for a machine that is too noisy; otherwise undefined. A machine is too noisy if 1 % of the waits
 * may have been late by more than half of the shortest of the slowest events. Events below MATTERS_SHARE do not count.
 */
function findNoiseReason({ late_at_most: { p99_ns }, slowest }: Figures): string | undefined {
  const least = slowest.findLast(({ target_ns }) => target_ns >= slowest[0]!.target_ns * MATTERS_SHARE)?.target_ns;
  if (p99_ns === null || least === undefined || p99_ns <= least / 2) return undefined;
  const formatMicroseconds = (ns: number) => `${Math.round(ns / 1000)} us`;
  const late = `1 % of the waits may have been late by ${formatMicroseconds(p99_ns)} or more`;
  return `${NOISY}: ${late}, which is over half of ${formatMicroseconds(least)}, one of the slowest events`;
}

const NOT_KNOWN = {
  by_thread_ns: 'several threads alike call on one file at once',
  by_order_ns: 'calls are missing or new, and their sizes do not tell which',
  by_files_ns: 'a thread calls on several files in another order, and sizes do not tell its calls apart',
  by_name_ns: 'the names of several files were generated, and their calls do not tell them apart',
} as const;

/** Lists the reasons that make more than a tenth of the planned time uncertain. */
function listUncertainReasons({ uncertain, planned_ns, guessed_ns }: Figures): string[] {
  const isMuch = (ns: number) => ns > planned_ns * (1 - REPLAYED_SHARE);
  const reasons = Object.entries(NOT_KNOWN)
    .filter(([by]) => isMuch(uncertain[by as keyof typeof NOT_KNOWN]))
    .map(([by, why]) => {
      const share = uncertain[by as keyof typeof NOT_KNOWN] / planned_ns;
      return `whose ${percent(share)} of what was planned are is not known: ${why}`;
    });
  if (isMuch(guessed_ns))
    reasons.push(
      `calls that the incident does not have were to wait as long as others like them: ${percent(guessed_ns / planned_ns)} of what was planned`,
    );
  return reasons;
}

export function percent(share: number): string {
  return `${Math.floor(share * 1000) / 10}%`;
}

export interface Gates {
  require?: Verdict | undefined;
  maxDurationNs?: number | undefined;
  expectExit?: number | undefined;
}

export interface GateResult {
  gate: string;
  met: boolean;
  detail: string;
}

export function checkGates(
  gates: Gates,
  { verdict, reasons }: Judgement,
  { code, durationNs }: { code: number; durationNs: number },
): GateResult[] {
  const { require: required, maxDurationNs, expectExit } = gates;
  const results: GateResult[] = [];
  if (required !== undefined) {
    const met = verdict !== 'failed' && VERDICTS.indexOf(verdict) <= VERDICTS.indexOf(required);
    results.push({
      gate: `--require ${required}`,
      met,
      detail: `it was ${[verdict, reasons.join('; ')].filter(Boolean).join(': ')}`,
    });
  }
  if (maxDurationNs !== undefined) {
    const formatMs = (ns: number) => `${(ns / 1e6).toFixed(3)}ms`;
    const detail = `the command took ${formatMs(durationNs)} of ${formatMs(maxDurationNs)}`;
    results.push({ gate: '--max-duration', met: durationNs <= maxDurationNs, detail });
  }
  if (expectExit !== undefined)
    results.push({
      gate: `--expect-exit ${expectExit}`,
      met: code === expectExit,
      detail: `the command ended with ${code}`,
    });
  return results;
}
