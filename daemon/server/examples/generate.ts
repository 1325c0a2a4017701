/** `make gen`: writes the examples of the API's document, which are actual answers of a daemon. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fetchExamples } from './examples.ts';

const ROOT = join(import.meta.dirname, '../../..');
export const EXAMPLES_FILE = join(ROOT, 'daemon/contract/gen/examples.ts');

const HEAD = `/** Examples of the API's document, by operation. \`make gen\` writes this file: see daemon/server/examples. */

`;

/** Builds the text of the file from the answers that a daemon currently gives. */
export async function buildExamplesText(): Promise<string> {
  const text = `${HEAD}export const EXAMPLES: Readonly<Record<string, object>> = ${writeLiteral(await fetchExamples())};\n`;
  const format = ['format', `--stdin-file-path=${EXAMPLES_FILE}`];
  return execFileSync(join(ROOT, 'node_modules/.bin/biome'), format, { cwd: ROOT, input: text, encoding: 'utf8' });
}

/** Writes a value as TypeScript. Integers that a double might not represent exactly are written as bigints. */
function writeLiteral(value: unknown): string {
  if (typeof value === 'bigint') return `${value}n`;
  if (Array.isArray(value)) return `[${value.map(writeLiteral).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const fields = Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${writeLiteral(item)}`);
  return `{ ${fields.join(', ')} }`;
}

if (import.meta.main) {
  mkdirSync(dirname(EXAMPLES_FILE), { recursive: true });
  writeFileSync(EXAMPLES_FILE, await buildExamplesText());
}
