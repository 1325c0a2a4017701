/** A histogram of durations: fixed buckets, so that it costs the same however long the agent runs. */

export interface Buckets {
  readonly boundsSeconds: readonly number[];
  /** One a bound, and one for what is longer. */
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
