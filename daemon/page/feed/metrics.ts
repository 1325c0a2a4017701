/** Reads Prometheus' text format, as far as the page needs it: the sum of each metric over its labels. */

/** A name, labels in which quoted text may have any character, and a value. */
const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\})? (\S+)/;

/** Sums by name; a metric that is not there is not known. */
export function metricSums(text: string): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const line of text.split('\n')) {
    const [, name, value] = SAMPLE.exec(line) ?? [];
    const number = Number(value);
    if (name !== undefined && Number.isFinite(number)) sums.set(name, (sums.get(name) ?? 0) + number);
  }
  return sums;
}
