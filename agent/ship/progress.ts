/** The progress of a shipper and its current trouble, for its log, its metrics and its service manager. */
import type { ShipReport } from '../../bpf/schema/ship_report.ts';
import { type Meaning, OWN_CODES, type ServerErrorCode } from '../clickhouse/connection/server_error.ts';
import { type Buckets, createBuckets } from '../metrics/buckets.ts';
import type { ClockEstimate } from './contact.ts';

export interface Trouble {
  /** `position` means that writing the position failed. */
  code: ServerErrorCode | 'position';
  meaning: Meaning;
  message: string;
}

/** Events that are sealed and have not arrived. */
export interface ShippingBacklog {
  events: number;
  /** Start of the oldest event; undefined if no event waits. */
  sinceNs: bigint | undefined;
}

export interface ShipProgress {
  /** Name of the node; undefined until there is a recording. */
  node: string | undefined;
  /** Number of events that arrived since the start of this process. */
  events: number;
  /** Number of events that were recorded and will not arrive, since the start of this process. */
  unshipped: number;
  groups: number;
  /** Bytes of rows that were sent, after compression. */
  wireBytes: number;
  retries: Map<string, number>;
  /** The current trouble; undefined while shipping works. */
  trouble: Trouble | undefined;
  /** Returns the backlog. It is read from the recording, because it grows even while nothing can be sent. */
  waiting: () => ShippingBacklog;
  /** Histogram of the time that groups took to arrive. */
  inserts: Buckets;
  clock: ClockEstimate | undefined;
}

/** Bounds of the histogram: from a small group on an idle server to a group that waits for merges. */
const INSERT_SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export const NOTHING_WAITS = (): ShippingBacklog => ({ events: 0, sinceNs: undefined });

export function createShipProgress(): ShipProgress {
  return {
    node: undefined,
    events: 0,
    unshipped: 0,
    groups: 0,
    wireBytes: 0,
    // All codes begin at 0: a metric that appears with its first failure would not show this failure as an increase.
    retries: new Map(OWN_CODES.map((code) => [code, 0])),
    trouble: undefined,
    waiting: NOTHING_WAITS,
    inserts: createBuckets(INSERT_SECONDS),
    clock: undefined,
  };
}

export function buildShipReport(progress: ShipProgress, startMs: number, nowMs: number): ShipReport {
  const { node, events, unshipped, wireBytes, retries, trouble, inserts, clock } = progress;
  const { events: waiting, sinceNs } = progress.waiting();
  const waitingMs = sinceNs === undefined ? 0 : nowMs - Number(sinceNs / 1_000_000n);
  return {
    node: node ?? null,
    start_time_seconds: startMs / 1e3,
    events,
    unshipped,
    wire_bytes: wireBytes,
    backlog: { events: waiting, seconds: Math.max(0, waitingMs / 1e3) },
    trouble: trouble
      ? { code: String(trouble.code), blocked: trouble.meaning === 'blocked', message: trouble.message }
      : null,
    retries: Object.fromEntries(retries),
    inserts: {
      bounds_seconds: [...inserts.boundsSeconds],
      counts: [...inserts.counts],
      sum_seconds: inserts.sumSeconds,
    },
    clock_offset_seconds: clock ? Number(clock.offsetNs) / 1e9 : null,
  };
}
