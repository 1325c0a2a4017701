/** Programs that a bench runs: each in a process group of its own, ended with the bench. */
import { spawn } from 'node:child_process';
import { BenchError } from './bench.ts';

/** A program that does not end by itself after this is killed. */
const END_TIMEOUT_MS = 10_000;

/**
 * Runs a program and prints the user time of it and of the children that it waited for, in seconds, as the last line
 * of stderr. Node can only tell its own. Passes on SIGTERM by living until the program, in the same group, has ended.
 */
const TIMED = ['bash', '-c', 'trap : INT TERM; TIMEFORMAT=%3U; time "$@"', 'bash'];

export interface Ended {
  stdout: string;
  userNs: number;
}

export interface Running {
  /** When the program has sent a message over its channel. */
  ready: Promise<void>;
  /** Rejects when it fails, or when the bench ends. */
  ended: Promise<Ended>;
  stop(): void;
}

export interface StartOptions {
  signal: AbortSignal;
  /** Gives the program a channel, whose loss also tells it that the bench is gone. */
  channel?: boolean;
}

export function start(program: readonly string[], { signal, channel = false }: StartOptions): Running {
  signal.throwIfAborted();
  const [file, ...args] = [...TIMED, ...program] as [string, ...string[]];
  // A group of its own: Ctrl-C reaches only us.
  const child = spawn(file, args, { detached: true, stdio: ['ignore', 'pipe', 'pipe', channel ? 'ipc' : 'ignore'] });
  let stdout = '';
  let stderr = '';
  child.stdout!.on('data', (text) => (stdout += text));
  child.stderr!.on('data', (text) => (stderr += text));

  let killing: NodeJS.Timeout | undefined;
  const send = (name: NodeJS.Signals) => {
    if (child.pid && child.exitCode === null && child.signalCode === null) process.kill(-child.pid, name);
  };
  const stop = () => {
    send('SIGTERM');
    killing ??= setTimeout(() => send('SIGKILL'), END_TIMEOUT_MS);
  };
  signal.addEventListener('abort', stop, { once: true });

  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, by) => {
      clearTimeout(killing);
      signal.removeEventListener('abort', stop);
      const lines = stderr.trimEnd().split('\n');
      if (signal.aborted) reject(signal.reason);
      else if (code === 0) resolve({ stdout, userNs: Number(lines.at(-1)) * 1e9 });
      else reject(new BenchError(`${program.join(' ')} failed (${by ?? `exit code ${code}`}):\n${stderr.trimEnd()}`));
    });
  });
  const ready = new Promise<void>((resolve, reject) => {
    child.once('message', () => resolve());
    ended.then(() => reject(new BenchError(`${program.join(' ')} ended before it was ready`)), reject);
  });
  // Whoever awaits one of the two may have given up on the other.
  ready.catch(() => undefined);
  ended.catch(() => undefined);
  return { ready, ended, stop };
}

export function run(program: readonly string[], signal: AbortSignal): Promise<Ended> {
  return start(program, { signal }).ended;
}
