/** Names in several recordings, sorted and without duplicates. */
export function mergedNames(names: readonly string[]): string[] {
  return [...new Set(names)].sort();
}
