/** Makes report files and the helper's messages, from what matters to a test. */
import { applyLine, createRunnerStatus, type RunnerStatus } from '../../../daemon/run/control_lines.ts';
import { writeRecord } from '../../../daemon/run/format/layout.ts';
import { OPS, type Op } from '../../../daemon/run/format/plan_file.ts';
import {
  CALL_FLAGS,
  MATCH_KINDS,
  type MatchKind,
  NONE,
  REPORT_MAGIC,
  reportCall,
  reportHeader,
} from '../../../daemon/run/format/report_file.ts';
import type { Incident } from '../../../daemon/run/plan/incident.ts';
import { createErrorCollector } from '../../../daemon/run/plan/recorded_errors.ts';
import { computeFigures } from '../../../daemon/run/report/figures.ts';
import { readReport } from '../../../daemon/run/report/read_report.ts';
import {
  buildRunResult,
  NO_PROPOSED_MAPS,
  type OutputLines,
  type ProposedMaps,
  type RunResult,
} from '../../../daemon/run/report/result.ts';
import { type Gates, judge } from '../../../daemon/run/report/verdict.ts';
import { planOf } from './planned.ts';

export interface Call {
  /** Time since the start of the command. */
  at?: number;
  target?: number;
  held?: number;
  how?: MatchKind;
  stream?: number;
  event?: number;
  size?: number;
  op?: Op;
  /** Upper bound on its wait before it was received. */
  queued?: number;
  /** Its file has another name than that of the incident. */
  standsIn?: boolean;
}

const STARTED_NS = 5_000_000_000_000_000n;

export function reportBytes(calls: readonly Call[]): Buffer {
  const bytes = Buffer.alloc(reportHeader.size + calls.length * reportCall.size);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  writeRecord(view, 0, reportHeader, {
    magic: REPORT_MAGIC.readBigUInt64LE(),
    call_bytes: reportCall.size,
    stream_count: 1,
    started_ns: STARTED_NS,
    plan_seed: 1n,
  });
  for (const [number, { at = number, target = 0, held = target, how = 'exact', ...call }] of calls.entries())
    writeRecord(view, reportHeader.size + number * reportCall.size, reportCall, {
      received_ns: STARTED_NS + BigInt(at),
      target_ns: BigInt(target),
      replied_ns: STARTED_NS + BigInt(at + held),
      native_ns: 0n,
      ...{ pid: 10, tid: 11, stream: call.stream ?? 0, event: call.event ?? NONE, size: call.size ?? 64 },
      ...{ op: OPS[call.op ?? 'write'], how: MATCH_KINDS[how], error: 0, queued_ns: call.queued ?? 0 },
      flags: call.standsIn ? CALL_FLAGS.stands_in : 0,
    });
  return bytes;
}

export function saidOf(...lines: object[]): RunnerStatus {
  const said = createRunnerStatus();
  for (const line of lines) applyLine(said, JSON.stringify(line));
  return said;
}

export const SETTINGS = {
  ...{ transaction_id: 'order-1', service: null, command: ['./build', 'a b'], mode: 'auto', seed: 7n, speed: 1 },
  ...{
    unknown: 'none',
    extra_latency_ns: 0,
    threshold_ns: 0,
    inject: [],
    fail: [],
    short: [],
    replay_errors: false,
    map: [],
  },
};

interface RunOptions {
  said?: RunnerStatus;
  gates?: Gates;
  code?: number;
  settings?: Partial<RunResult['settings']>;
  lastLines?: OutputLines[];
  proposedMaps?: ProposedMaps;
}

/** The result of a run in which the helper has answered these calls. */
export function ran(incident: Incident, calls: readonly Call[], options: RunOptions = {}) {
  const { said = createRunnerStatus(), gates = {}, code = 0 } = options;
  const settings = { ...SETTINGS, ...options.settings };
  const plan = planOf(incident);
  const report = readReport(reportBytes(calls), plan.eventCount);
  const figures = computeFigures(plan, report, said, settings.threshold_ns);
  const judgement = judge(figures, settings.mode);
  const ended = { code, duration_ns: 1_500_000_000, started_at: '2026-11-22T10:00:00.000Z' };
  const errors = createErrorCollector();
  const result = buildRunResult({
    judgement,
    settings,
    incident,
    errors,
    ended,
    lastLines: options.lastLines ?? [],
    figures,
    proposedMaps: options.proposedMaps ?? NO_PROPOSED_MAPS,
    said,
    gates,
  });
  return { plan, report, figures, result };
}
