/**
 * How often suites repeat what they draw at random or do in a loop. `make test` repeats often enough to find what a
 * mistake in the code breaks; `make test-long` sets REPEATS, for a run that looks for more.
 */

export const REPEATS = Number(process.env.REPEATS ?? 1);

/** A number of repetitions that takes seconds; REPEATS=10 makes it ten times as many. */
export function times(count: number): number {
  return Math.max(1, Math.round(count * REPEATS));
}
