/** All results of a run. `--report` writes them, and every other form of report is made from them. */
import { formatMilliseconds } from '../../base/duration.ts';
import { RESULT_VERSION } from '../../model/run_difference.ts';
import type { RunnerStatus } from '../control_lines.ts';
import type { Incident } from '../plan/incident.ts';
import type { RecordedErrors } from '../plan/recorded_errors.ts';
import type { Figures } from './figures.ts';
import type { MapProposals } from './map_proposals.ts';
import { checkGates, type GateResult, type Gates, type Judgement } from './verdict.ts';

export interface Attempt {
  seed: bigint;
  extra_latency_ns: number;
  /** Exit code of the command; null if the command was not started. */
  code: number | null;
  verdict: RunResult['verdict'];
}

export interface Repeated {
  attempts: Attempt[];
  /** The largest latency known to pass, and the smallest latency known to fail; null if there is none. */
  passes_ns: number | null;
  fails_ns: number | null;
  /** The latency at which a search ended, because the run was not faithful enough to say; null if there is none. */
  unknown_ns: number | null;
}

export interface RunSettings {
  transaction_id: string;
  /** The only service that is replayed; null: all services of the incident. */
  service: string | null;
  command: readonly string[];
  mode: string;
  seed: bigint;
  /** Target of calls to files that are not in the incident: `none`, or a duration drawn from their `class`. */
  unknown: string;
  speed: number;
  extra_latency_ns: number;
  threshold_ns: number;
  inject: readonly string[];
  fail: readonly string[];
  short: readonly string[];
  replay_errors: boolean;
  map: readonly string[];
}

/** The last lines of an output of the command, without escape sequences of terminals. */
export interface OutputLines {
  /** `output` is a file that both outputs were written to. */
  output: 'output' | 'standard output' | 'standard error';
  lines: string[];
}

/** Maps that may find files of the incident that the run did not find. */
export interface ProposedMaps extends MapProposals {
  /** The maps as options for a shell. */
  options: string[];
}

export const NO_PROPOSED_MAPS: ProposedMaps = { maps: [], fits: false, options: [] };

export interface RunResult {
  kreplay_run: typeof RESULT_VERSION;
  verdict: Judgement['verdict'];
  reasons: string[];
  settings: RunSettings;
  /** How the command ended; null if it was not started. */
  ended: { code: number; duration_ns: number; started_at: string } | null;
  gates: GateResult[];
  /** Only of outputs that are files: what went to a terminal or a pipe is not known. */
  last_lines: OutputLines[];
  figures: Figures | null;
  proposed_maps: ProposedMaps;
  incident: {
    events: number;
    planned_events: number;
    /** Number of calls that failed in the incident. */
    recorded_errors: number;
    not_replayable: Incident['notReplayable'];
  };
  /** The attempts if a run was repeated. The other results are those of one of these attempts. */
  repeated: Repeated | null;
  /** Numbers of calls that are impossible to hold, of calls for a seccomp listener, and of files with unclear names. */
  uncovered: Record<string, number>;
  machine: {
    floor_ns: number | null;
    sleep_p50_ns: number | null;
    sleep_p99_ns: number | null;
    steal_ns: number | null;
    features: Record<string, unknown>;
  };
}

interface Parts {
  judgement: Judgement;
  settings: RunSettings;
  incident: Incident;
  errors: RecordedErrors;
  ended: RunResult['ended'];
  lastLines: OutputLines[];
  figures: Figures | null;
  proposedMaps: ProposedMaps;
  said: RunnerStatus;
  gates: Gates;
}

export function buildRunResult(parts: Parts): RunResult {
  const { judgement, settings, incident, errors, ended, lastLines, figures, proposedMaps, said, gates } = parts;
  const { calibrated } = said;
  return {
    kreplay_run: RESULT_VERSION,
    ...judgement,
    settings,
    ended,
    gates: ended ? checkGates(gates, judgement, { code: ended.code, durationNs: ended.duration_ns }) : [],
    last_lines: lastLines,
    figures,
    proposed_maps: proposedMaps,
    incident: {
      events: incident.eventCount,
      planned_events: incident.calls.count,
      recorded_errors: errors.count,
      not_replayable: incident.notReplayable,
    },
    repeated: null,
    uncovered: Object.fromEntries(said.uncovered),
    machine: {
      floor_ns: calibrated?.floor_ns ?? null,
      sleep_p50_ns: calibrated?.sleep_p50_ns ?? null,
      sleep_p99_ns: calibrated?.sleep_p99_ns ?? null,
      steal_ns: said.ended?.steal_ns ?? null,
      features: calibrated?.features ?? {},
    },
  };
}

/** Formats a duration in the form that options accept: `1.5ms`. */
export function formatOptionMs(ns: number): string {
  return `${formatMilliseconds(BigInt(Math.round(ns)))}ms`;
}
