/** Summarizes a run in a few lines, for people. */
import { printable } from '../../../agent/output/printable.ts';
import { errorsText } from './error_figures.ts';
import type { Figures } from './figures.ts';
import type { MatchKindCounts } from './match_kinds.ts';
import { milliseconds, type Repeated, type RunResult } from './result.ts';
import { MODES_OF_SUMS, percent } from './verdict.ts';

const UNMATCHED_STREAMS_MAX = 3;

/** The bound may be this large even when no call waits, so a smaller one is not shown. */
const QUEUED_NS_MIN = 100_000;

const LEFT_OUT: Record<keyof RunResult['incident']['not_replayable'], string> = {
  background: 'requests of the kernel that no caller waited for',
  reads: 'reads and discards',
  within_calls: 'requests within a recorded call, which has their time already',
  outside_calls: 'requests in no recorded call',
  standard_streams: 'writes to a terminal or log',
  no_file: 'calls on descriptors of no known file',
};

export function summaryLines(result: RunResult): string[] {
  const { verdict, reasons, figures, ended, gates, settings, incident, uncovered, repeated } = result;
  const lines = [`${verdict}${reasons.length > 0 ? `: ${reasons.join('; ')}` : ''}`];
  if (figures) lines.push(faithfulness(figures, settings.mode), ...figureLines(figures));
  if (incident.recorded_errors > 0 && !settings.replay_errors)
    lines.push(`${incident.recorded_errors} calls failed in the incident: --replay-errors returns their errors`);
  for (const [kind, count] of Object.entries(incident.not_replayable))
    if (count > 0) lines.push(`not replayable: ${count} ${LEFT_OUT[kind as keyof typeof LEFT_OUT]}`);
  for (const [what, count] of Object.entries(uncovered)) if (count > 0) lines.push(uncoveredLine(what, count));
  if (ended) lines.push(`the command ended with ${ended.code} after ${inWords(ended.duration_ns)}`);
  for (const { gate, met, detail } of gates) lines.push(`${gate}: ${met ? 'met' : 'not met'}, ${detail}`);
  if (repeated) lines.push(repeatedLine(result, repeated));
  return lines.map(printable);
}

function uncoveredLine(what: string, count: number): string {
  if (what === 'unclear_name')
    return `not held: ${count} files whose names the recording cannot distinguish from others: not UTF-8, or in too many folders`;
  if (what === 'shared_name') return `in doubt: ${count} files of names that share one of the incident`;
  if (what === 'interrupted') return `in doubt: up to ${count} calls that signals interrupted before they were seen`;
  if (what !== 'seccomp_listener') return `not held: ${count} of ${what}`;
  const times = count === 1 ? 'once' : `${count} times`;
  return `the command asked ${times} for a seccomp listener of its own, which is not possible under kreplay run (EBUSY)`;
}

function repeatedLine({ settings: { seed } }: RunResult, { attempts, passes_ns, fails_ns }: Repeated): string {
  const isSearch = new Set(attempts.map(({ extra_latency_ns }) => extra_latency_ns)).size > 1;
  const failed = attempts.filter(({ code }) => code !== 0).length;
  if (!isSearch) return `${failed} of ${attempts.length} runs did not end with 0; shown is --seed ${seed}`;
  if (fails_ns === null) return `it does not fail with --extra-latency ${milliseconds(passes_ns ?? 0)}`;
  const passes = passes_ns === null ? '' : `, and not with ${milliseconds(passes_ns)}`;
  return `it fails with --extra-latency ${milliseconds(fails_ns)} --seed ${seed}${passes}`;
}

const UNCERTAIN_SHARE_MIN = 0.01;
const PERHAPS_TO = {
  by_thread_ns: 'those of another thread',
  by_order_ns: 'other calls',
  by_name_ns: 'those on another file',
} as const;

function faithfulness(figures: Figures, mode: string): string {
  const { matched_by_duration, planned_ns, uncertain, injected_ns, slowest, slowest_delivered } = figures;
  if (MODES_OF_SUMS.includes(mode)) return `${inWords(injected_ns)} of waits where ${inWords(planned_ns)} were planned`;
  const share = matched_by_duration === null ? 'no wait was planned' : `${percent(matched_by_duration)} of`;
  const planned = matched_by_duration === null ? '' : ` ${inWords(planned_ns)} planned went to the calls it belongs to`;
  const perhaps = Object.entries(PERHAPS_TO).flatMap(([by, others]) => {
    const part = uncertain[by as keyof typeof PERHAPS_TO] / planned_ns;
    return part >= UNCERTAIN_SHARE_MIN ? [`, ${percent(part)} perhaps to ${others}`] : [];
  });
  return `${share}${planned}${perhaps.join('')}; ${slowest_delivered} of the ${slowest.length} slowest events delivered`;
}

function figureLines(figures: Figures): string[] {
  const { calls, how, fates, injected_ns, late, late_at_most, short_writes, errors } = figures;
  const missing = fates.missing === 1 ? '1 event was' : `${fates.missing} events were`;
  const lines = [`${calls} calls: ${howText(how)}; ${missing} not called for; ${inWords(injected_ns)} injected`];
  if (late.p50_ns !== null) lines.push(`late by ${spreadText(late)}`);
  if (late.p99_ns !== null && late_at_most.p99_ns! - late.p99_ns >= QUEUED_NS_MIN)
    lines.push(`calls waited in a queue before they were seen: late by up to ${spreadText(late_at_most)}`);
  const { short, whole } = short_writes;
  if (short + whole > 0)
    lines.push(`short writes: ${short}${whole > 0 ? `; ${whole} more could not be made short` : ''}`);
  if (errors.planned > 0) lines.push(errorsText(errors) ?? `all of ${errors.planned} errors were returned`);
  const unmatched = figures.streams.filter((stream) => stream.calls === 0 && stream.recorded_events > 0);
  for (const { op_class, path, recorded_events } of unmatched.slice(0, UNMATCHED_STREAMS_MAX))
    lines.push(`never called: ${op_class} ${path} (${recorded_events} events)`);
  if (unmatched.length > UNMATCHED_STREAMS_MAX)
    lines.push(`never called: ${unmatched.length - UNMATCHED_STREAMS_MAX} more streams`);
  return lines;
}

function spreadText({ p50_ns, p99_ns, max_ns }: Figures['late_at_most']): string {
  return `${inWords(p50_ns!)} (p50), ${inWords(p99_ns!)} (p99), ${inWords(max_ns!)} (max)`;
}

const HOW_WORDS: Record<keyof MatchKindCounts, string> = {
  exact: 'exact',
  size: 'of another size',
  window: 'ahead of their turn',
  extra: 'extra',
  distribution: 'by distribution',
  stall: 'by what was under way',
  class: 'to unknown places by their class',
  no_stream: 'to unknown places',
  below_threshold: 'below the threshold',
  error_injected: 'failed on purpose',
};

function howText(how: MatchKindCounts): string {
  const parts = Object.entries(HOW_WORDS).flatMap(([name, words]) => {
    const count = how[name as keyof MatchKindCounts];
    return count > 0 ? [`${count} ${words}`] : [];
  });
  return parts.join(', ') || 'none';
}

/** Three significant digits are enough here. */
export function inWords(ns: number): string {
  const size = Math.abs(ns);
  if (size < 1000) return `${Math.round(ns)}ns`;
  const [unit, scale] = size < 1e6 ? ['us', 1e3] : size < 1e9 ? ['ms', 1e6] : ['s', 1e9];
  const value = ns / Number(scale);
  return `${Math.abs(value) < 100 ? Number(value.toPrecision(3)) : Math.round(value)}${unit}`;
}
