/** Finds the known name that is closest to a misspelt name, for "did you mean". */

/** Maximum share of wrong letters in a name. */
const WRONG_SHARE = 0.4;

export function findNearest(
  written: string,
  names: Iterable<string>,
  editsMax = Number.POSITIVE_INFINITY,
): string | undefined {
  const near = [...names]
    .map((name) => ({ name, edits: countEdits(normalizeName(written), normalizeName(name)) }))
    .filter(({ name, edits }) => edits <= Math.min(name.length * WRONG_SHARE, editsMax))
    .sort((a, b) => a.edits - b.edits);
  return near[0]?.name;
}

function normalizeName(name: string): string {
  return name.toLowerCase().replaceAll('_', '-');
}

/** Returns the edit distance: the number of letters inserted, deleted, replaced, or swapped with their neighbour. */
function countEdits(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const changed = last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped =
        a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? beforeLast[j - 2]! + 1 : Number.POSITIVE_INFINITY;
      row.push(Math.min(changed, swapped, row[j - 1]! + 1, last[j]! + 1));
    }
    [beforeLast, last] = [last, row];
  }
  return last[b.length]!;
}
