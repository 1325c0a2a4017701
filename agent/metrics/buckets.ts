/** A histogram of durations with fixed buckets: its cost does not depend on how long the agent runs. */

export interface Buckets {
  readonly boundsSeconds: readonly number[];
  /** One count per bound, and one for longer durations. */
  readonly counts: readonly number[];
  readonly sumSeconds: number;
  add(seconds: number): void;
}

export function createBuckets(boundsSeconds: readonly number[]): Buckets {
  const counts = Array.from({ length: boundsSeconds.length + 1 }, () => 0);
  let sumSeconds = 0;
  return {
    boundsSeconds,
    counts,
    get sumSeconds() {
      return sumSeconds;
    },
    add(seconds) {
      const bucket = boundsSeconds.findIndex((bound) => seconds <= bound);
      counts[bucket < 0 ? boundsSeconds.length : bucket]!++;
      sumSeconds += seconds;
    },
  };
}
