import { once } from 'node:events';
import { escapeControlsAsJson } from '../../../agent/output/printable.ts';

/**
 * Prints text, and waits while the reader is slow. On a terminal, control characters are escaped, because recorded text
 * must not send control sequences. A pipe gets the text unchanged.
 */
export async function print(text: string): Promise<void> {
  if (text === '') return;
  if (!process.stdout.write(process.stdout.isTTY ? escapeControlsAsJson(text) : text))
    await once(process.stdout, 'drain');
}
