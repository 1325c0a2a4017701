import { once } from 'node:events';
import { escapeControlsAsJson } from '../../../agent/output/printable.ts';

/**
 * Prints at the reader's pace. Recorded text must not control a terminal, whatever the format; a pipe gets it
 * unchanged.
 */
export async function print(text: string): Promise<void> {
  if (text === '') return;
  if (!process.stdout.write(process.stdout.isTTY ? escapeControlsAsJson(text) : text))
    await once(process.stdout, 'drain');
}
