/** The answers of the API that the page reads, as far as it reads them. */
import type { State } from '../../replay/transitions.ts';
import type { Filtered } from '../link/link.ts';
import type { ExactInteger } from './daemon.ts';

export interface Gap {
  from: ExactInteger;
  to: ExactInteger;
  lost: number;
  cause: string;
  node: string | null;
}

/** A call or a request that has begun and not ended. */
export interface Unended {
  timestamp_ns: ExactInteger;
  transaction_id: string | null;
  node: string;
  comm: string;
  syscall?: string;
  file?: string | null;
  operation?: string;
  device?: string;
}

export interface Coverage {
  complete: boolean;
  lost: number;
  gaps: Gap[];
  recorded_until: ExactInteger | null;
  nodes: { node: string; recorded_until: ExactInteger }[];
  in_progress?: { count: number; oldest: ExactInteger; events: Unended[] };
}

export interface WrittenBack {
  count: number;
  bytes: ExactInteger;
  last_end_ns: ExactInteger | null;
}

export interface Transaction {
  transaction_id: string;
  trace_id: string | null;
  first_timestamp_ns: ExactInteger;
  last_end_ns: ExactInteger;
  duration_ns: ExactInteger;
  written_back: WrittenBack;
  event_count: number;
  error_count: number;
  slowest_event_id: string;
  services: string[];
  nodes: string[];
  pinned: boolean;
}

export interface TransactionList {
  transactions: Transaction[];
  next_cursor: string | null;
  coverage: Coverage;
}

/** Which events get the extra latency: those that fit each list; calls without types. */
export interface Only {
  event_type?: readonly string[];
  service?: readonly string[];
  node?: readonly string[];
}

export interface NodeClock {
  node: string;
  offset_ns: ExactInteger;
  /** Total size of all steps of the clock while the transaction ran. */
  stepped_ns: ExactInteger;
  source: 'override' | 'measured' | 'none';
}

export interface Lateness {
  p50_ns: number;
  p99_ns: number;
  max_ns: ExactInteger;
  late_events: number;
}

export interface Session {
  session_id: string;
  transaction_id: string;
  speed_factor: number;
  extra_latency_ns: ExactInteger;
  timeout_ns: ExactInteger | null;
  max_gap_ns: ExactInteger | null;
  only: Only;
  clock: NodeClock[];
  loop: boolean;
  state: State;
  position_ns: ExactInteger;
  duration_ns: ExactInteger;
  replay_duration_ns: ExactInteger | null;
  replay_end_ns: ExactInteger | null;
  event_index: number;
  event_count: number;
  times_out: boolean | null;
  rounds: number;
  until: 'replay_duration_ns' | null;
  starts_at_ns: ExactInteger | null;
  lateness: Lateness;
  starvations: number;
  failure: string | null;
  last_event_id: number;
}

export interface PlayedEvent {
  event_id: string;
  replay: { index: number; offset_ns: number; lateness_ns: number; duration_ns: number; after_timeout: boolean };
}

/** Where the clock of a session is, without its events. */
export interface PlayedPosition {
  position_ns: ExactInteger;
  event_index: number;
  lateness: Lateness;
}

export interface CurveLine {
  events: ExactInteger;
  end_ns: ExactInteger;
}

export interface WhatIfAnswer {
  event_count: number;
  affected_count: number;
  duration_ns: ExactInteger;
  replay_duration_ns: ExactInteger;
  curve: CurveLine[];
  times_out: boolean;
  /** Null if it is not known. */
  in_progress_times_out: boolean | null;
  after_timeout_count: number;
  smallest_latency_ns: ExactInteger | null;
}

export interface CurvesAnswer {
  are_more: boolean;
  transactions: { transaction_id: string; curve: CurveLine[] }[];
  coverage: Coverage;
}

export interface Readiness {
  recordings: {
    recording_id: string;
    node: string;
    source: 'live' | 'imported' | 'named';
    damaged: boolean;
    agent: { state: string; alive_at: string | null };
  }[];
  unreadable: { file: string; reason: string }[];
  /** Null if the daemon serves recordings, of which a fleet has none. */
  fleet: { nodes: { current: number; silent: number; ended: number } } | null;
  sessions: { kept: boolean; failure: string | null };
}

export interface Access {
  token_needed: boolean;
  name: string | null;
  scopes: string[];
  expires_at: string | null;
}

export type MapKind = 'transactions' | 'events';

export interface HeatmapAnswer {
  of: MapKind;
  from: ExactInteger;
  to: ExactInteger;
  column_ns: ExactInteger;
  column_count: number;
  first_row: number;
  row_edges: ExactInteger[];
  /** Column, row, count, failed. */
  cells: [number, number, number, number][];
  total: { count: number; failed: number; duration_ns: { sum: ExactInteger; max: ExactInteger | null } };
  coverage: Coverage;
}

export interface ComparedSide {
  count: number;
  duration_ns: ExactInteger;
  breakdown: Record<`${'queue' | 'service' | 'sync' | 'write' | 'request' | 'untraced'}_ns`, ExactInteger>;
}

/** What is compared: what can be filtered, and who was on the same device at the same time. */
export type ComparedField = Filtered | 'neighbour';

export interface DifferentValue {
  field: ComparedField;
  value: string;
  /** The device of a neighbour. */
  device?: string;
  selected: number;
  others: number;
}

export interface DifferencesAnswer {
  of: MapKind;
  window: { narrowed: boolean };
  selected: ComparedSide;
  others: ComparedSide;
  too_few: boolean;
  differences: { values: DifferentValue[] }[];
  more: number;
  equal: ComparedField[];
  left_out: ComparedField[];
  coverage: Coverage;
}
