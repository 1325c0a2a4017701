/** The JSON output of `kreplay fleet`. */

/**
 * Prints a value as one line, so that the lines of several servers are NDJSON. Writes bigints as numbers with all
 * digits.
 */
export function printJsonLine(value: unknown): void {
  // Node has `JSON.rawJSON`; TypeScript's library does not declare it yet.
  const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };
  const replaceBigint = (_key: string, one: unknown) => (typeof one === 'bigint' ? rawJSON(String(one)) : one);
  process.stdout.write(`${JSON.stringify(value, replaceBigint)}\n`);
}
