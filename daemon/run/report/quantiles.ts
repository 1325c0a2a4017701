/** Returns the smallest of the sorted values that `share` of them do not exceed; null when there are none. */
export function quantile(sorted: Float64Array, share: number): number | null {
  if (sorted.length === 0) return null;
  return sorted[Math.max(Math.ceil(sorted.length * share) - 1, 0)]!;
}

/**
 * The Kolmogorov-Smirnov distance of two distributions, the largest difference, 0 to 1; null when one has no values.
 */
export function ksDistance(one: Float64Array, other: Float64Array): number | null {
  if (one.length === 0 || other.length === 0) return null;
  let [i, j, largest] = [0, 0, 0];
  while (i < one.length && j < other.length) {
    const value = Math.min(one[i]!, other[j]!);
    while (i < one.length && one[i] === value) i++;
    while (j < other.length && other[j] === value) j++;
    largest = Math.max(largest, Math.abs(i / one.length - j / other.length));
  }
  return largest;
}
