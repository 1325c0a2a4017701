/** Runs the programs of a bench: each in a process group of its own, ended with the bench. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { BenchError } from './bench.ts';

/** Node with the options of agent/launcher.sh. */
export const NODE = [process.execPath, '--no-maglev'] as const;

/** kreplay as it is installed. */
export const KREPLAY = [join(import.meta.dirname, '../../build/kreplay')] as const;

/** A program that has not ended this long after it was stopped is killed. */
const END_TIMEOUT_MS = 10_000;

/**
 * Runs a program and prints the user and system time of it and of the children that it waited for, in seconds, as the
 * last line of stderr. Node reports only its own. On SIGTERM it stays alive until the program, which gets the signal as
 * a member of the same group, has ended.
 */
const TIMED = ['bash', '-c', 'trap : INT TERM; TIMEFORMAT="%3U %3S"; time "$@"', 'bash'];

/** Mounts tracefs, if it is not mounted, in a mount namespace of the program's own: nothing is left to unmount. */
const WITH_TRACEFS = [
  'unshare',
  '--mount',
  'sh',
  '-c',
  '[ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing; exec "$@"',
  'sh',
];

export interface Ended {
  stdout: string;
  userNs: number;
  systemNs: number;
}

export interface Running {
  /** Resolves when the program has sent a message over its channel. */
  ready: Promise<void>;
  /** Rejects when the program fails, or when the bench ends. */
  ended: Promise<Ended>;
  /** Sends a message over the channel and returns the answer. Only one question at a time. */
  ask(question: string): Promise<unknown>;
  /** Sends a signal to the program and all that it has started. */
  send(name: NodeJS.Signals): void;
  stop(): void;
}

export interface StartOptions {
  signal: AbortSignal;
  /** Gives the program a channel; its end also notifies the program that the bench is gone. */
  channel?: boolean;
  /** Gives the program a tracefs. */
  tracefs?: boolean;
}

export function start(program: readonly string[], { signal, channel, tracefs }: StartOptions): Running {
  signal.throwIfAborted();
  const [file, ...args] = [...TIMED, ...(tracefs ? WITH_TRACEFS : []), ...program] as [string, ...string[]];
  // A process group of its own: Ctrl-C reaches only the bench.
  const child = spawn(file, args, { detached: true, stdio: ['ignore', 'pipe', 'pipe', channel ? 'ipc' : 'ignore'] });
  let stdout = '';
  let stderr = '';
  child.stdout!.on('data', (text) => (stdout += text));
  child.stderr!.on('data', (text) => (stderr += text));

  let killing: NodeJS.Timeout | undefined;
  const send = (name: NodeJS.Signals) => process.kill(-child.pid!, name);
  const stop = () => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    send('SIGTERM');
    killing ??= setTimeout(send, END_TIMEOUT_MS, 'SIGKILL');
  };
  signal.addEventListener('abort', stop, { once: true });

  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, by) => {
      clearTimeout(killing);
      signal.removeEventListener('abort', stop);
      const lines = stderr.trimEnd().split('\n');
      const [userNs, systemNs] = lines
        .pop()!
        .split(' ')
        .map((seconds) => Number(seconds) * 1e9) as [number, number];
      if (signal.aborted) reject(signal.reason);
      else if (code === 0) resolve({ stdout, userNs, systemNs });
      else reject(new BenchError(`${program[0]} failed (${by ?? `exit code ${code}`}): ${lines.join('\n')}`));
    });
  });
  const nextMessage = () =>
    new Promise<unknown>((resolve, reject) => {
      child.once('message', resolve);
      ended.then(() => reject(new BenchError(`${program[0]} ended before it answered`)), reject);
    });
  const ready = nextMessage().then(() => undefined);
  // A caller that awaits one of the two may have given up on the other.
  ready.catch(() => undefined);
  ended.catch(() => undefined);
  const ask = (question: string) => {
    child.send(question);
    return nextMessage();
  };
  return { ready, ended, ask, send, stop };
}

export function run(program: readonly string[], options: StartOptions): Promise<Ended> {
  return start(program, options).ended;
}

/** A port for a program that takes its address from the command line. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
