/** `kreplay up`: an agent and a daemon over one data folder, each in a process of its own. */
import { type ChildProcess, fork } from 'node:child_process';
import { Command } from 'commander';
import { DATA_DEFAULT } from './agent.ts';
import { endingSignal } from './ending.ts';
import { AgentError } from './errors.ts';

const LISTEN_DEFAULT = '127.0.0.1:7467';
/** A child that does not end by itself after this is killed; the recording stands that. */
const END_TIMEOUT_MS = 10_000;

interface UpFlags {
  data: string;
  listen: string;
  node?: string;
}

export function upCommand(): Command {
  return new Command('up')
    .description('record this host and serve what is recorded, until Ctrl-C')
    .option('--data <folder>', 'folder to record into', DATA_DEFAULT)
    .option('--listen <address>', 'HOST:PORT on this machine, or unix:/path', LISTEN_DEFAULT)
    .option('--node <name>', 'name of this host in the recording (default: its host name)')
    .action(up);
}

async function up({ data, listen, node }: UpFlags): Promise<void> {
  const signal = endingSignal();
  const daemon = start(['daemon', '--data', data, '--listen', listen]);
  const agent = start(['agent', '--data', data, ...(node ? ['--node', node] : [])]);
  const parts = [daemon, agent];
  try {
    await Promise.race([
      Promise.all(parts.map(({ ready }) => ready)),
      ...parts.map(({ failed }) => failed),
      aborted(signal),
    ]);
    if (!signal.aborted) printNextSteps(data, listen);
    await Promise.race([...parts.map(({ failed }) => failed), aborted(signal)]);
  } finally {
    await Promise.all(parts.map(({ child }) => end(child)));
  }
}

interface Part {
  child: ChildProcess;
  ready: Promise<void>;
  /** Rejects when the child ends, which only we may ask of it. */
  failed: Promise<never>;
}

function start(args: readonly string[]): Part {
  // A group of its own: Ctrl-C reaches only us, and we end the two in order.
  const child = fork(process.argv[1]!, args, { detached: true, stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const ready = new Promise<void>((resolve) => child.once('message', () => resolve()));
  const failed = new Promise<never>((_, reject) => {
    // The child has said why on stderr.
    child.once('exit', (code, signal) =>
      reject(new AgentError(`the ${args[0]} ended (${signal ?? `exit code ${code}`})`)),
    );
  });
  failed.catch(() => undefined);
  return { child, ready, failed };
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(() => child.kill('SIGKILL'), END_TIMEOUT_MS);
    child.once('exit', () => {
      clearTimeout(timer);
      resolve();
    });
    child.kill('SIGTERM');
  });
}

function printNextSteps(data: string, listen: string): void {
  const address = listen.startsWith('unix:') ? `--unix-socket ${listen.slice(5)} http://localhost` : `http://${listen}`;
  process.stdout.write(`
Try next, in another terminal:
  build/kreplay exec --transaction order-1 -- dd if=/dev/zero of=${data}/f bs=4k count=100 oflag=direct
  curl '${address}/api/events?transaction_id=order-1'
Ctrl-C ends both.
`);
}
