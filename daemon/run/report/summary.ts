/** Formats a run as a few lines of text for the user. */
import { escapeControls } from '../../../agent/output/printable.ts';
import { formatClosingLine, isRequirement } from './closing_line.ts';
import { formatErrorFigures } from './error_figures.ts';
import type { Figures } from './figures.ts';
import { formatProposals } from './map_option.ts';
import type { MatchKindCounts } from './match_kinds.ts';
import { formatOptionMs, type ProposedMaps, type Repeated, type RunResult } from './result.ts';
import { MODES_OF_SUMS, percent } from './verdict.ts';

const UNMATCHED_FILES_MAX = 3;

/**
 * Minimum difference between `late_at_most` and `late` at which `late_at_most` is shown. A smaller difference exists
 * even if no call queues.
 */
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
  if (result.proposed_maps.options.length > 0) lines.push(formatProposalLine(result.proposed_maps));
  for (const [what, count] of Object.entries(uncovered)) if (count > 0) lines.push(formatUncoveredLine(what, count));
  if (ended) lines.push(`the command ended with ${ended.code} after ${formatShortDuration(ended.duration_ns)}`);
  // Requirements that are met are left out, because the first line already has the verdict.
  for (const gate of gates.filter((gate) => !gate.met || !isRequirement(gate)))
    lines.push(`${gate.gate}: ${gate.met ? 'met' : 'not met'}, ${gate.detail}`);
  if (repeated) lines.push(formatRepeatedLine(result, repeated));
  const closing = formatClosingLine(result);
  if (closing !== undefined) lines.push(closing);
  return lines.map(escapeControls);
}

function formatProposalLine(proposed: ProposedMaps): string {
  const where = proposed.fits ? 'below another folder here' : 'below several folders here, which do not fit together';
  return `files of the incident have the same names ${where}: ${formatProposals(proposed)}?`;
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

function formatRepeatedLine({ settings: { seed }, verdict }: RunResult, repeated: Repeated): string {
  const { attempts, passes_ns, fails_ns, unknown_ns } = repeated;
  if (unknown_ns !== null)
    return `the search ended with --extra-latency ${formatOptionMs(unknown_ns)}: a run that is ${verdict} does not say whether the command fails`;
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
  by_files_ns: 'other calls on their files',
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
  return [...lines, ...formatNeverCalled(figures)];
}

interface NeverCalled {
  events: number;
  isOutput: boolean;
}

/**
 * Formats the files on which the run never called. Each file has one line for its writes and one for its syncs, even if
 * several threads called on it in the incident. Files beyond UNMATCHED_FILES_MAX are only counted, and so are logs of
 * recorded services, unless there are no other files.
 */
function formatNeverCalled({ streams }: Figures): string[] {
  const files = new Map<string, NeverCalled>();
  for (const { op_class, path, recorded_events, is_output, calls } of streams) {
    if (calls > 0 || recorded_events === 0) continue;
    const name = `${op_class} ${path}`;
    files.set(name, { events: (files.get(name)?.events ?? 0) + recorded_events, isOutput: is_output });
  }
  const all = [...files];
  const others = all.filter(([, { isOutput }]) => !isOutput);
  const named = others.length > 0 ? others : all;
  const lines = named
    .slice(0, UNMATCHED_FILES_MAX)
    .map(([name, { events }]) => `never called: ${name} (${events} events)`);
  if (named.length > UNMATCHED_FILES_MAX) lines.push(`never called: ${named.length - UNMATCHED_FILES_MAX} more files`);
  const outputs = all.length - named.length;
  if (outputs > 0) lines.push(`never called: ${outputs} files that were the outputs of recorded programs, as logs are`);
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

/** Formats a duration with three significant digits. */
export function formatShortDuration(ns: number): string {
  const size = Math.abs(ns);
  if (size < 1000) return `${Math.round(ns)}ns`;
  const [unit, scale] = size < 1e6 ? ['us', 1e3] : size < 1e9 ? ['ms', 1e6] : ['s', 1e9];
  const value = ns / Number(scale);
  return `${Math.abs(value) < 100 ? Number(value.toPrecision(3)) : Math.round(value)}${unit}`;
}
