/** The load of a soak: a program that numbers its writes, and lists when it made which. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Batch } from './account.ts';

const SOURCE = join(import.meta.dirname, 'paced_writes.c');
/** The program's command name, which no other soak on this machine has: the agent filters by it. */
export const PROGRAM = `paced_${process.pid}`;
const WORDS = 3;

export interface Load {
  pid: number;
  /** Number of writes by now, as the kernel counts them. */
  made(): number;
  /** Ends it and returns what it wrote, one batch a millisecond. */
  stop(): Promise<Batch[]>;
  /** Ends it at once, whatever it is doing. */
  kill(): void;
}

export function startLoad(folder: string, writesPerMs: number): Load {
  const program = join(folder, PROGRAM);
  execFileSync('gcc', ['-O2', '-Wall', '-Wextra', '-Werror', '-o', program, SOURCE]);
  const list = join(folder, 'batches');
  const child = spawn(program, [list, String(writesPerMs)], { stdio: 'ignore' });
  const ended = once(child, 'exit');
  return {
    pid: child.pid!,
    made: () => Number(/^syscw: (\d+)$/m.exec(readFileSync(`/proc/${child.pid}/io`, 'latin1'))![1]),
    kill: () => void child.kill('SIGKILL'),
    async stop() {
      child.kill('SIGTERM');
      const [code] = await ended;
      if (code !== 0) throw new Error(`${PROGRAM} ended with ${code}`);
      return batchesOf(readFileSync(list), writesPerMs);
    },
  };
}

function batchesOf(bytes: Buffer, count: number): Batch[] {
  const words = new BigUint64Array(bytes.buffer, bytes.byteOffset, bytes.length / 8);
  return Array.from({ length: words.length / WORDS }, (_, i) => ({
    first: Number(words[WORDS * i]!),
    count,
    beganNs: words[WORDS * i + 1]!,
    endedNs: words[WORDS * i + 2]!,
  }));
}
