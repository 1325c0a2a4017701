import { once } from 'node:events';
import { escapeControlsAsJson } from '../../../agent/output/printable.ts';

/**
 * Prints as fast as the reader reads. On a terminal, recorded text must not act as control sequences, whatever the
 * format; a pipe gets the text unchanged.
 */
export async function print(text: string): Promise<void> {
  if (text === '') return;
  if (!process.stdout.write(process.stdout.isTTY ? escapeControlsAsJson(text) : text))
    await once(process.stdout, 'drain');
}
