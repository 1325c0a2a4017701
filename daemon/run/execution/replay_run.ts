/** Makes one run: compiles the plan, runs the helper, reads the report and computes the verdict. */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createPrivateFolder } from '../../../agent/process/surroundings.ts';
import { toWriteError } from '../../export/errors.ts';
import { createRunnerStatus, type RunnerStatus } from '../control_lines.ts';
import { EXIT, toRunError } from '../errors.ts';
import { EVENT_FLAGS, OPS } from '../format/plan_file.ts';
import { compilePlan, type DelayPlan } from '../plan/compile.ts';
import { encodePlan } from '../plan/encode.ts';
import type { Incident } from '../plan/incident.ts';
import type { RecordedErrors } from '../plan/recorded_errors.ts';
import { computeFaultLimits, type FailRule, type InjectRule, isChosen, listPathPatterns } from '../plan/rules.ts';
import type { ShortRule } from '../plan/short_rule.ts';
import { computeFigures } from '../report/figures.ts';
import { loadReport } from '../report/load_report.ts';
import { formatMapOption } from '../report/map_option.ts';
import { proposeMaps } from '../report/map_proposals.ts';
import { type CallReport, createEmptyReport } from '../report/read_report.ts';
import { buildRunResult, NO_PROPOSED_MAPS, type RunResult, type RunSettings } from '../report/result.ts';
import { addInterrupted, type Gates, type Judgement, judge } from '../report/verdict.ts';
import { watchOutputs } from './last_lines.ts';
import { findObstacle, type RunnerEnd, runCommand } from './runner_process.ts';

export interface RunRequest {
  incident: Incident;
  errors: RecordedErrors;
  settings: RunSettings;
  inject: readonly InjectRule[];
  fail: readonly FailRule[];
  short: readonly ShortRule[];
  gates: Gates;
  ioUring: string;
  /** Whether any report shows the last lines of the command's outputs. */
  showsLastLines: boolean;
}

export interface Run {
  result: RunResult;
  plan: DelayPlan;
  calls: CallReport;
  /** Exit code with which `kreplay run` ends. */
  exitCode: number;
  /** Whether a signal such as SIGINT or SIGTERM was forwarded to the command. */
  wasSignalled: boolean;
}

export async function replayRun(request: RunRequest): Promise<Run> {
  const { incident, errors, settings, inject, fail, short } = request;
  const { seed, speed, extra_latency_ns, replay_errors } = settings;
  const compiled = compilePlan(incident, { seed, speed, extraLatencyNs: extra_latency_ns, inject, fail });
  const plan = addFaults(compiled, incident, { short, errors: replay_errors ? errors : undefined });
  const reason =
    plan.eventCount === 0 ? 'nothing in it can be replayed' : findObstacle({ makesShort: short.length > 0 });
  if (reason !== undefined) {
    return buildUnstartedRun(request, plan, { verdict: 'unsupported', reasons: [reason] }, EXIT.notReplayable);
  }
  const folder = createPrivateFolder('kreplay-run-');
  try {
    return await runPlan(request, plan, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function runPlan(request: RunRequest, plan: DelayPlan, folder: string): Promise<Run> {
  const { incident, errors, settings, gates, ioUring } = request;
  const { mode, seed, unknown, threshold_ns, map, command } = settings;
  const planPath = join(folder, 'plan');
  const reportPath = join(folder, 'report');
  writePlan(planPath, encodePlan(plan));
  const startedAt = new Date().toISOString();
  const tailsPath = request.showsLastLines ? join(folder, 'tails') : undefined;
  const runner = { planPath, reportPath, tailsPath, mode, seed, unknown, thresholdNs: threshold_ns, ioUring };
  const rulePaths = [...request.inject, ...request.fail, ...request.short].flatMap(listPathPatterns);
  const readLastLines = watchOutputs(tailsPath);
  const end = await runCommand({ ...runner, maps: map, rulePaths: [...new Set(rulePaths)], command });
  const failure = findRunnerFailure(end);
  if (failure) {
    const reason = failure.reason.includes(folder)
      ? `${failure.reason}; TMPDIR chooses another folder`
      : failure.reason;
    return buildUnstartedRun(request, plan, { verdict: 'failed', reasons: [reason] }, failure.exitCode);
  }
  const { calls, leftOut } = loadReport(reportPath, plan.eventCount);
  const figures = computeFigures(plan, calls, end.said, threshold_ns);
  const judgement = addInterrupted(judge(figures, mode), end.said, figures.calls);
  if (leftOut > 0) judgement.reasons.push(`${leftOut} calls at the end were not examined`);
  const ended = { code: end.code, duration_ns: end.said.ended!.duration_ns, started_at: startedAt };
  const result = buildRunResult({
    judgement,
    settings,
    incident,
    errors,
    ended,
    lastLines: readLastLines(),
    figures,
    proposedMaps: buildProposedMaps(plan, calls, end.said, judgement),
    said: end.said,
    gates,
  });
  const exitCode = chooseExitCode(result, end.code, gates.expectExit !== undefined);
  return { result, plan, calls, exitCode, wasSignalled: end.wasSignalled };
}

/** Proposes maps, but not for a run with the verdict `replayed`, because such a run found the files that matter. */
function buildProposedMaps(plan: DelayPlan, calls: CallReport, said: RunnerStatus, { verdict }: Judgement) {
  if (verdict === 'replayed') return NO_PROPOSED_MAPS;
  const folder = process.cwd();
  const proposals = proposeMaps(plan, calls, said, folder);
  const surroundings = { folder, pwd: process.env.PWD };
  return { ...proposals, options: proposals.maps.map((map) => formatMapOption(map, surroundings)) };
}

function writePlan(path: string, bytes: Buffer): void {
  try {
    writeFileSync(path, bytes, { mode: 0o600 });
  } catch (error) {
    throw toRunError(toWriteError(error, path));
  }
}

/** Returns why the run failed if the helper failed or was killed; undefined if the helper ended normally. */
function findRunnerFailure({ code, signal, said }: RunnerEnd): { reason: string; exitCode: number } | undefined {
  const isOurs = code === EXIT.failed || code === EXIT.canNotRun || code === EXIT.notFound;
  const exitCode = isOurs ? code : EXIT.failed;
  if (said.failed) return { reason: said.failed.reason, exitCode };
  if (signal !== null)
    return { reason: `the runner was ended by ${signal}, and the command with it`, exitCode: EXIT.failed };
  if (said.ended) return undefined;
  return { reason: 'the runner ended without a report', exitCode };
}

function buildUnstartedRun(request: RunRequest, plan: DelayPlan, judgement: Judgement, exitCode: number): Run {
  const { incident, errors, settings, gates } = request;
  const parts = {
    judgement,
    settings,
    incident,
    errors,
    ended: null,
    lastLines: [],
    figures: null,
    proposedMaps: NO_PROPOSED_MAPS,
    said: createRunnerStatus(),
    gates,
  };
  return { result: buildRunResult(parts), plan, calls: createEmptyReport(), exitCode, wasSignalled: false };
}

/**
 * Returns the command's exit code if the command failed; otherwise 0, or the code for an unmet gate. With
 * `isExitExpected`, a gate judges the command's exit code instead.
 */
function chooseExitCode({ gates }: RunResult, code: number, isExitExpected: boolean): number {
  if (!isExitExpected && code !== 0) return code;
  return gates.every(({ met }) => met) ? 0 : EXIT.gateNotMet;
}

/* Adds faults to a plan, besides those of `--fail`: short writes, and errors of calls that failed in production. */

interface Faults {
  short: readonly ShortRule[];
  /**
   * Errors that calls returned in production and return again in the run. If undefined, the run makes these calls
   * normally.
   */
  errors: RecordedErrors | undefined;
}

export function addFaults(plan: DelayPlan, incident: Incident, { short, errors }: Faults): DelayPlan {
  if (short.length === 0 && !errors?.count) return plan;
  const events = {
    ...plan.events,
    error: Uint16Array.from(plan.events.error),
    flags: Uint16Array.from(plan.events.flags),
  };
  const { columns, count } = incident.calls;
  const places = computeCallEvents(plan, incident);
  const shortening = plan.streams.map((stream) =>
    short.flatMap((rule, at) => (OPS[stream.op] < OPS.fsync && isChosen(rule, stream) ? [at] : [])),
  );
  const seen = short.map(() => 0);
  for (let call = 0; call < count; call++) {
    const at = places[call]!;
    const lane = columns.lane[call]!;
    for (const rule of shortening[incident.lanes.getFirst(lane)]!) {
      const { nth, matches } = short[rule]!;
      seen[rule]!++;
      if (nth !== undefined && nth !== seen[rule]) continue;
      events.flags[at]! |= EVENT_FLAGS.short_write | computeFaultLimits(matches);
    }
    const errno = errors?.getErrno(incident.getTid(incident.lanes.getSecond(lane)), columns.startNs[call]!) ?? 0;
    // An error that a rule chose takes precedence.
    if (events.error[at] !== 0 || errno === 0) continue;
    events.error[at] = errno;
    events.flags[at]! |= EVENT_FLAGS.own_call;
  }
  return { ...plan, events };
}

/**
 * Returns the index of each call's event in the plan. Within a stream, slots are in the order of lanes; within a slot,
 * events are in the order of calls.
 */
function computeCallEvents({ streams, slots }: DelayPlan, { calls: { columns, count }, lanes }: Incident): Uint32Array {
  const nextSlot = streams.map(({ firstSlot }) => firstSlot);
  const slotOf = Uint32Array.from({ length: lanes.count }, (_, lane) => nextSlot[lanes.getFirst(lane)]!++);
  const nextEvent = slots.firstEvent.slice();
  const places = new Uint32Array(count);
  for (let call = 0; call < count; call++) places[call] = nextEvent[slotOf[columns.lane[call]!]!]!++;
  return places;
}
