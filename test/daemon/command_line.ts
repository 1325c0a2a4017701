/** `kreplay ...` as a process of its own, from the sources. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

const ENTRY = join(import.meta.dirname, '../../kreplay.ts');

export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface Running {
  child: ChildProcess;
  /** Resolves with the text so far when standard output matches. */
  printed(pattern: RegExp): Promise<string>;
  ended: Promise<Ended>;
}

export function start(...args: string[]): Running {
  const child = spawn(process.execPath, [ENTRY, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  return {
    child,
    async printed(pattern) {
      while (!pattern.test(stdout)) {
        await Promise.race([once(child.stdout, 'data'), once(child, 'close')]);
        if (child.exitCode !== null && !pattern.test(stdout)) throw new Error(`ended without it: ${stdout}${stderr}`);
      }
      return stdout;
    },
    ended: once(child, 'close').then(([code]) => ({ code, stdout, stderr })),
  };
}

export function kreplay(...args: string[]): Promise<Ended> {
  return start(...args).ended;
}
