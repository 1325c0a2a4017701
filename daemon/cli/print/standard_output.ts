import { once } from 'node:events';
import { harmless } from '../../../agent/output/printable.ts';

/** At the reader's pace. What was recorded steers no terminal, in whatever format; a pipe gets it as it is. */
export async function print(text: string): Promise<void> {
  if (text === '') return;
  if (!process.stdout.write(process.stdout.isTTY ? harmless(text) : text)) await once(process.stdout, 'drain');
}
