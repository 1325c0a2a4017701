/** The JSON output of `kreplay fleet`. */

/** Prints one line, so that the lines of several servers are NDJSON; integers of 64 bits are written in full. */
export function printJsonLine(value: unknown): void {
  // Node has `JSON.rawJSON`; TypeScript's library does not declare it yet.
  const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown };
  const replaceBigint = (_key: string, one: unknown) => (typeof one === 'bigint' ? rawJSON(String(one)) : one);
  process.stdout.write(`${JSON.stringify(value, replaceBigint)}\n`);
}
