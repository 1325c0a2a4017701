/** Statistics of lateness: emission minus deadline on the steady clock, taken when the event is played. */
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';

/** Lateness, in nanoseconds, above which an event counts as late. */
export const LATE_NS = 1_000_000;
/** Values up to an hour are recorded with a precision of 1 %. A histogram takes 40 KB per session. */
const HISTOGRAM = { lowest: 1, highest: 3_600_000_000_000, figures: 2 } as const;

export interface LatenessSummary {
  p50_ns: number;
  p99_ns: number;
  max_ns: bigint;
  late_events: number;
}

export interface LatenessRecorder {
  record(latenessNs: number): void;
  reset(): void;
  summary(): LatenessSummary;
}

/** Calls `onRecord` for each recorded value. */
export function createLateness(onRecord?: (latenessNs: number) => void): LatenessRecorder {
  /** Created at the first event to save memory, because most of a thousand sessions are not playing. */
  let histogram: RecordableHistogram | undefined;
  let maxNs = 0;
  let lateEvents = 0;

  /** The histogram returns the upper end of a bucket, which may exceed the largest recorded value. */
  function percentile(percent: number): number {
    return histogram ? Math.min(histogram.percentile(percent), maxNs) : 0;
  }

  return {
    record(latenessNs) {
      histogram ??= createHistogram(HISTOGRAM);
      // The histogram accepts no value below 1.
      histogram.record(Math.min(Math.max(latenessNs, 1), HISTOGRAM.highest));
      if (latenessNs > maxNs) maxNs = latenessNs;
      if (latenessNs > LATE_NS) lateEvents++;
      onRecord?.(latenessNs);
    },
    reset() {
      histogram?.reset();
      maxNs = 0;
      lateEvents = 0;
    },
    summary: () => ({
      p50_ns: percentile(50),
      p99_ns: percentile(99),
      max_ns: BigInt(maxNs),
      late_events: lateEvents,
    }),
  };
}
