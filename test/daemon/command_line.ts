/** Runs `kreplay ...` from the sources, in a process of its own. */
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Readable } from 'node:stream';

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
  /** Resolves with the text so far when standard error matches. */
  logged(pattern: RegExp): Promise<string>;
  ended: Promise<Ended>;
}

export function start(...args: string[]): Running {
  return startWith({}, ...args);
}

/** Starts it with these variables added to its environment. */
export function startWith(environment: NodeJS.ProcessEnv, ...args: string[]): Running {
  const env = { ...process.env, ...environment };
  const child = spawn(process.execPath, [ENTRY, ...args], { stdio: ['ignore', 'pipe', 'pipe'], env });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  async function seen(stream: Readable, text: () => string, pattern: RegExp): Promise<string> {
    while (!pattern.test(text())) {
      await Promise.race([once(stream, 'data'), once(child, 'close')]);
      if (child.exitCode !== null && !pattern.test(text())) throw new Error(`ended without it: ${stdout}${stderr}`);
    }
    return text();
  }
  return {
    child,
    printed: (pattern) => seen(child.stdout, () => stdout, pattern),
    logged: (pattern) => seen(child.stderr, () => stderr, pattern),
    ended: once(child, 'close').then(([code]) => ({ code, stdout, stderr })),
  };
}

/** Runs it in a pseudo-terminal and returns everything that the terminal shows. */
export async function atTerminal(...args: string[]): Promise<Omit<Ended, 'stderr'>> {
  const command = [process.execPath, ENTRY, ...args].map((arg) => `'${arg}'`).join(' ');
  const stdio: StdioOptions = ['ignore', 'pipe', 'inherit'];
  const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], { stdio });
  let stdout = '';
  child.stdout!.setEncoding('utf8').on('data', (text) => {
    stdout += text;
  });
  const [code] = await once(child, 'close');
  return { code, stdout };
}

export function kreplay(...args: string[]): Promise<Ended> {
  return start(...args).ended;
}
