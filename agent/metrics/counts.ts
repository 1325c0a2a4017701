/** Counts what the agent has recorded and lost so far: once per commit, never once per event. */
import type { AgentReport } from '../../bpf/schema/agent_report.ts';
import { EVENTS } from '../../bpf/schema/index.ts';
import type { Committed } from '../recording/write/writer_thread.ts';
import { createBuckets } from './buckets.ts';

/** Bounds of the histogram: from a commit on an idle disk to a commit so slow that the writer's blocks fill up. */
const COMMIT_SECONDS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Values that the agent reads at the time of the report. */
export interface ReportedNow {
  /** Number of event rings. */
  ringCount: number;
  /** Size of each event ring. */
  ringBytes: number;
  /** Number of bytes that wait in the fullest event ring. */
  pendingBytes: number;
  unsyncedSeconds: number;
  failure: string | null;
}

export interface AgentCounts {
  noteCommit(commit: Committed): void;
  /** Notes the maximum number of bytes that have waited in one event ring since the last call. */
  seeRing(peakBytes: number): void;
  report(now: ReportedNow): AgentReport;
}

export function createCounts(node: string): AgentCounts {
  const startMs = Date.now();
  const recorded = new Map<string, number>(EVENTS.map(({ name }) => [name, 0]));
  const lost = new Map<string, AgentReport['lost'][number]>();
  const commits = createBuckets(COMMIT_SECONDS);
  const ringPeak = createPeak(() => performance.now());

  return {
    noteCommit({ batch, seconds }) {
      commits.add(seconds);
      for (const { unwritten } of batch.rows)
        for (const { id, name } of EVENTS)
          recorded.set(name, recorded.get(name)! + unwritten.typeTo[id]! - unwritten.typeFrom[id]!);
      for (const { cause, eventType, count, transactionId } of batch.losses) {
        // A part is counted by the loss that it is a part of.
        if (transactionId !== undefined) continue;
        const key = `${cause} ${eventType}`;
        lost.set(key, { cause, event_type: eventType, count: (lost.get(key)?.count ?? 0) + count });
      }
    },
    seeRing: ringPeak.see,
    report({ ringCount, ringBytes, pendingBytes, unsyncedSeconds, failure }) {
      const { user, system } = process.cpuUsage();
      ringPeak.see(pendingBytes);
      return {
        node,
        start_time_seconds: startMs / 1e3,
        cpu_seconds: (user + system) / 1e6,
        resident_bytes: process.memoryUsage.rss(),
        failure,
        unsynced_seconds: unsyncedSeconds,
        ring: {
          count: ringCount,
          size_bytes: ringBytes,
          pending_bytes: pendingBytes,
          peak_bytes: ringPeak.value(),
        },
        recorded: Object.fromEntries(recorded),
        lost: [...lost.values()],
        commits: {
          bounds_seconds: [...commits.boundsSeconds],
          counts: [...commits.counts],
          sum_seconds: commits.sumSeconds,
        },
      };
    },
  };
}

/* Keeps the highest recent value, which also shows short peaks between two scrapes. */

const WINDOW_MS = 60_000;

interface Peak {
  see(value: number): void;
  /** Returns the peak of the current and the previous window. */
  value(): number;
}

export function createPeak(nowMs: () => number): Peak {
  let windowFromMs = nowMs();
  let before = 0;
  let current = 0;

  function follow(): void {
    const elapsedMs = nowMs() - windowFromMs;
    if (elapsedMs < WINDOW_MS) return;
    before = elapsedMs < 2 * WINDOW_MS ? current : 0;
    current = 0;
    windowFromMs += Math.floor(elapsedMs / WINDOW_MS) * WINDOW_MS;
  }

  return {
    see(value) {
      follow();
      if (value > current) current = value;
    },
    value() {
      follow();
      return Math.max(before, current);
    },
  };
}
