/** Finds remains of a run. */
import { readdirSync, readFileSync } from 'node:fs';

/** A word in their environment identifies the processes of a run, even after they have forked or called exec. */
export function processesOf(word: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, 'utf8').includes(word);
    } catch {
      return false;
    }
  });
}

export async function allGone(word: string): Promise<void> {
  for (let left = 200; processesOf(word).length > 0; left--) {
    if (left === 0) throw new Error(`still there: ${processesOf(word)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export const marked = () => `kreplay-ending-${process.pid}-${Math.random().toString(36).slice(2)}`;
