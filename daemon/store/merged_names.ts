/** What several recordings name, each name once, sorted. */
export function mergedNames(names: readonly string[]): string[] {
  return [...new Set(names)].sort();
}
