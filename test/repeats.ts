/** How often suites repeat what they draw at random or do in a loop. */

const REPEATS = Number(process.env.REPEATS ?? 1);

/** A number of repetitions that takes seconds; REPEATS=10 makes it ten times as many, for a run that looks for more. */
export function times(count: number): number {
  return Math.max(1, Math.round(count * REPEATS));
}
