/** All results of a run. `--report` writes them as JSON, and all other reports are generated from them. */
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
  /** Exit code of the command; null if the command was not started or the helper failed. */
  code: number | null;
  verdict: RunResult['verdict'];
}

export interface Repeated {
  attempts: Attempt[];
  /**
   * The largest latency at which the command passed, and the smallest latency at which it failed; null if there is no
   * such latency.
   */
  passes_ns: number | null;
  fails_ns: number | null;
  /**
   * The latency at which a search ended because the run was too unfaithful to count as a pass or a failure; null if no
   * search ended this way.
   */
  unknown_ns: number | null;
}

export interface RunSettings {
  transaction_id: string;
  /** The only service that is replayed; null if all services are replayed. */
  service: string | null;
  command: readonly string[];
  mode: string;
  seed: bigint;
  /**
   * Target of calls to files that are not in the incident: `none` for no delay, `class` for a duration drawn from calls
   * of the same class.
   */
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

/** The last lines of one output of the command, without terminal escape sequences. */
export interface OutputLines {
  /** `output` stands for both outputs if they are the same file or pipe. */
  output: 'output' | 'standard output' | 'standard error';
  lines: string[];
}

/** Proposed maps, which may locate files of the incident that the run did not find. */
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
  /** Exit code, duration and start time of the command; null if it was not started or the helper failed. */
  ended: { code: number; duration_ns: number; started_at: string } | null;
  gates: GateResult[];
  /** The last lines of the command's outputs. Lines that were written to a terminal are not available. */
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
  /** The attempts of a repeated run; null for a single run. All other results are those of one chosen attempt. */
  repeated: Repeated | null;
  /**
   * Counts by reason: calls that the helper cannot hold, calls that install another seccomp listener, calls that a
   * signal interrupted, and files with unclear or shared names.
   */
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
