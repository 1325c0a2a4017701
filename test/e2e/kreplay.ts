/** Runs the built program as a user does. `make test` builds it first. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Readable } from 'node:stream';

export { freePort } from '../free_port.ts';

export const KREPLAY = resolve(import.meta.dirname, '../../build/kreplay');

export interface Finished {
  status: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

export function kreplay(
  args: readonly string[],
  options: { input?: string; cwd?: string; env?: NodeJS.ProcessEnv } = {},
): Finished {
  return spawnSync(KREPLAY, args, { encoding: 'utf8', timeout: 30_000, ...options });
}

export function runCommand([file, ...args]: readonly string[]): Finished {
  return spawnSync(file!, args, { encoding: 'utf8', timeout: 30_000 });
}

export interface Running {
  process: ChildProcess;
  output(): string;
  complaints(): string;
  /** Resolves when standard output contains the text. */
  says(text: string): Promise<void>;
  /** Resolves when standard error matches the words. */
  complains(words: RegExp): Promise<void>;
  ended: Promise<{ status: number | null; signal: NodeJS.Signals | null }>;
}

export function start(args: readonly string[], command: readonly string[] = []): Running {
  const [file, ...rest] = [...command, KREPLAY, ...args];
  const child = spawn(file!, rest, { stdio: ['ignore', 'pipe', 'pipe'] });
  started.push(child);
  let output = '';
  let complaints = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text;
  });
  const ended = once(child, 'close').then(([status, signal]) => ({ status, signal }));
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  const seen = (stream: Readable, wanted: string, isThere: () => boolean) =>
    new Promise<void>((resolve, failed) => {
      const look = () => isThere() && resolve();
      stream.on('data', look);
      look();
      ended.then(() => failed(new Error(`it ended without saying "${wanted}": ${output}${complaints}`)));
    });
  return {
    process: child,
    output: () => output,
    complaints: () => complaints,
    ended,
    says: (text) => seen(child.stdout, text, () => output.includes(text)),
    complains: (words) => seen(child.stderr, String(words), () => words.test(complaints)),
  };
}

const started: ChildProcess[] = [];

/** Tests call it in afterAll(): a test that fails half-way must leave nothing running. */
export function endAll(): void {
  for (const child of started) if (child.exitCode === null) child.kill('SIGKILL');
}

export function temporaryFolder(): { path: string; remove(): void } {
  // The folder has to be on a disk, not on a tmpfs: the tests look for block requests.
  const path = mkdtempSync(join(tmpdir(), 'kreplay-e2e-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export function wallClockNs(): bigint {
  return BigInt(execFileSync('date', ['+%s%N'], { encoding: 'utf8' }).trim());
}
