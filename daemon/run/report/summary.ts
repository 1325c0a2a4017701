/** Summarizes a run in a few lines, for people. */
import { escapeControls } from '../../../agent/output/printable.ts';
import { formatErrorFigures } from './error_figures.ts';
import type { Figures } from './figures.ts';
import type { MatchKindCounts } from './match_kinds.ts';
import { formatOptionMs, type Repeated, type RunResult } from './result.ts';
import { MODES_OF_SUMS, percent } from './verdict.ts';

const UNMATCHED_STREAMS_MAX = 3;

/** Minimum difference between the two latenesses that is shown: a smaller difference exists even if no call waits. */
const QUEUED_NS_MIN = 100_000;

const LEFT_OUT: Record<keyof RunResult['incident']['not_replayable'], string> = {
  background: 'requests of the kernel that no caller waited for',
  reads: 'reads and discards',
  within_calls: 'requests within a recorded call, which has their time already',
  outside_calls: 'requests in no recorded call',
  standard_streams: 'writes to a terminal or log',
  no_file: 'calls on descriptors of no known file',
};

export function formatSummaryLines(result: RunResult): string[] {
  const { verdict, reasons, figures, ended, gates, settings, incident, uncovered, repeated } = result;
  const lines = [`${verdict}${reasons.length > 0 ? `: ${reasons.join('; ')}` : ''}`];
  if (figures) lines.push(formatFaithfulness(figures, settings.mode), ...formatFigureLines(figures));
  if (incident.recorded_errors > 0 && !settings.replay_errors)
    lines.push(`${incident.recorded_errors} calls failed in the incident: --replay-errors returns their errors`);
  for (const [kind, count] of Object.entries(incident.not_replayable))
    if (count > 0) lines.push(`not replayable: ${count} ${LEFT_OUT[kind as keyof typeof LEFT_OUT]}`);
  for (const [what, count] of Object.entries(uncovered)) if (count > 0) lines.push(formatUncoveredLine(what, count));
  if (ended) lines.push(`the command ended with ${ended.code} after ${formatShortDuration(ended.duration_ns)}`);
  for (const { gate, met, detail } of gates) lines.push(`${gate}: ${met ? 'met' : 'not met'}, ${detail}`);
  if (repeated) lines.push(formatRepeatedLine(result, repeated));
  return lines.map(escapeControls);
}

function formatUncoveredLine(what: string, count: number): string {
  if (what === 'unclear_name')
    return `not held: ${count} files whose names the recording cannot distinguish from others: not UTF-8, or in too many folders`;
  if (what === 'shared_name') return `in doubt: ${count} files of names that share one of the incident`;
  if (what === 'interrupted') return `in doubt: up to ${count} calls that signals interrupted before they were seen`;
  if (what !== 'seccomp_listener') return `not held: ${count} of ${what}`;
  const times = count === 1 ? 'once' : `${count} times`;
  return `the command asked ${times} for a seccomp listener of its own, which is not possible under kreplay run (EBUSY)`;
}

function formatRepeatedLine({ settings: { seed } }: RunResult, { attempts, passes_ns, fails_ns }: Repeated): string {
  const isSearch = new Set(attempts.map(({ extra_latency_ns }) => extra_latency_ns)).size > 1;
  const failed = attempts.filter(({ code }) => code !== 0).length;
  if (!isSearch) return `${failed} of ${attempts.length} runs did not end with 0; shown is --seed ${seed}`;
  if (fails_ns === null) return `it does not fail with --extra-latency ${formatOptionMs(passes_ns ?? 0)}`;
  const passes = passes_ns === null ? '' : `, and not with ${formatOptionMs(passes_ns)}`;
  return `it fails with --extra-latency ${formatOptionMs(fails_ns)} --seed ${seed}${passes}`;
}

const UNCERTAIN_SHARE_MIN = 0.01;
const PERHAPS_TO = {
  by_thread_ns: 'those of another thread',
  by_order_ns: 'other calls',
  by_name_ns: 'those on another file',
} as const;

function formatFaithfulness(figures: Figures, mode: string): string {
  const { matched_by_duration, planned_ns, uncertain, injected_ns, slowest, slowest_delivered } = figures;
  if (MODES_OF_SUMS.includes(mode))
    return `${formatShortDuration(injected_ns)} of waits where ${formatShortDuration(planned_ns)} were planned`;
  const share = matched_by_duration === null ? 'no wait was planned' : `${percent(matched_by_duration)} of`;
  const planned =
    matched_by_duration === null ? '' : ` ${formatShortDuration(planned_ns)} planned went to the calls it belongs to`;
  const perhaps = Object.entries(PERHAPS_TO).flatMap(([by, others]) => {
    const part = uncertain[by as keyof typeof PERHAPS_TO] / planned_ns;
    return part >= UNCERTAIN_SHARE_MIN ? [`, ${percent(part)} perhaps to ${others}`] : [];
  });
  return `${share}${planned}${perhaps.join('')}; ${slowest_delivered} of the ${slowest.length} slowest events delivered`;
}

function formatFigureLines(figures: Figures): string[] {
  const { calls, how, fates, injected_ns, late, late_at_most, short_writes, errors } = figures;
  const missing = fates.missing === 1 ? '1 event was' : `${fates.missing} events were`;
  const lines = [
    `${calls} calls: ${formatMatchCounts(how)}; ${missing} not called for; ${formatShortDuration(injected_ns)} injected`,
  ];
  if (late.p50_ns !== null) lines.push(`late by ${spreadText(late)}`);
  if (late.p99_ns !== null && late_at_most.p99_ns! - late.p99_ns >= QUEUED_NS_MIN)
    lines.push(`calls waited in a queue before they were seen: late by up to ${spreadText(late_at_most)}`);
  const { short, whole } = short_writes;
  if (short + whole > 0)
    lines.push(`short writes: ${short}${whole > 0 ? `; ${whole} more could not be made short` : ''}`);
  if (errors.planned > 0) lines.push(formatErrorFigures(errors) ?? `all of ${errors.planned} errors were returned`);
  const unmatched = figures.streams.filter((stream) => stream.calls === 0 && stream.recorded_events > 0);
  for (const { op_class, path, recorded_events } of unmatched.slice(0, UNMATCHED_STREAMS_MAX))
    lines.push(`never called: ${op_class} ${path} (${recorded_events} events)`);
  if (unmatched.length > UNMATCHED_STREAMS_MAX)
    lines.push(`never called: ${unmatched.length - UNMATCHED_STREAMS_MAX} more streams`);
  return lines;
}

function spreadText({ p50_ns, p99_ns, max_ns }: Figures['late_at_most']): string {
  return `${formatShortDuration(p50_ns!)} (p50), ${formatShortDuration(p99_ns!)} (p99), ${formatShortDuration(max_ns!)} (max)`;
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

function formatMatchCounts(how: MatchKindCounts): string {
  const parts = Object.entries(HOW_WORDS).flatMap(([name, words]) => {
    const count = how[name as keyof MatchKindCounts];
    return count > 0 ? [`${count} ${words}`] : [];
  });
  return parts.join(', ') || 'none';
}

/** Formats a duration with three significant digits, which are enough here. */
export function formatShortDuration(ns: number): string {
  const size = Math.abs(ns);
  if (size < 1000) return `${Math.round(ns)}ns`;
  const [unit, scale] = size < 1e6 ? ['us', 1e3] : size < 1e9 ? ['ms', 1e6] : ['s', 1e9];
  const value = ns / Number(scale);
  return `${Math.abs(value) < 100 ? Number(value.toPrecision(3)) : Math.round(value)}${unit}`;
}
