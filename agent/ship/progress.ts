/** What a shipper has done and what keeps it from going on, for its log, its metrics and its service manager. */
import type { ErrorCode, Meaning } from '../clickhouse/connection/server_error.ts';
import type { ClockEstimate } from './contact.ts';

export interface Trouble {
  /** `position`: it cannot be written. */
  code: ErrorCode | 'position';
  meaning: Meaning;
  message: string;
}

export interface ShipProgress {
  /** Events that arrived since the start of this process. */
  events: number;
  /** Events that were recorded and will not arrive, since the start of this process. */
  unshipped: number;
  groups: number;
  retries: Map<string, number>;
  /** Undefined while nothing is in the way. */
  trouble: Trouble | undefined;
  /** Events that are sealed and have not arrived. */
  backlog: number;
  /** How long the last group took to arrive. */
  insertMs: number;
  clock: ClockEstimate | undefined;
}

export function newProgress(): ShipProgress {
  return {
    events: 0,
    unshipped: 0,
    groups: 0,
    retries: new Map(),
    trouble: undefined,
    backlog: 0,
    insertMs: 0,
    clock: undefined,
  };
}
