/** `kreplay up`: an agent and a daemon over one data folder, each in a process of its own. */
import { type ChildProcess, fork, type StdioOptions } from 'node:child_process';
import { Command } from 'commander';
import { agentArguments, withAgentOptions } from './command.ts';
import { endingSignal } from './ending.ts';

const LISTEN_DEFAULT = '127.0.0.1:7467';
/** A child that does not end by itself after this is killed; the recording stands that. */
const END_TIMEOUT_MS = 10_000;

interface UpFlags {
  data: string;
  listen: string;
}

export function upCommand(): Command {
  const command = new Command('up')
    .description('record this host and serve what is recorded, until Ctrl-C')
    .option('--listen <address>', 'HOST:PORT on this machine, or unix:/path', LISTEN_DEFAULT);
  return withAgentOptions(command).action(up);
}

/** Node's own; what else the launcher gives us keeps an agent small. */
const DAEMON_FLAGS = process.execArgv.filter((flag) => flag === '--no-maglev');

async function up({ data, listen }: UpFlags, command: Command): Promise<void> {
  const signal = endingSignal();
  const daemon = start(['daemon', '--data', data, '--listen', listen], DAEMON_FLAGS);
  const agent = start(['agent', ...agentArguments(command)], process.execArgv);
  const parts = [daemon, agent];
  process.on('SIGHUP', () => agent.child.kill('SIGHUP'));
  const ended = Promise.race([aborted(signal), ...parts.map((part) => part.ended)]);
  await Promise.race([ended, Promise.all(parts.map(({ ready }) => ready)).then(() => printNextSteps(data, listen))]);
  await ended;
  // Only the signal is a reason to end. A part that ended by itself has said why on stderr.
  if (!signal.aborted) process.exitCode = 1;
  await Promise.all(parts.map(({ child }) => end(child)));
}

interface Part {
  child: ChildProcess;
  ready: Promise<void>;
  ended: Promise<void>;
}

function start(args: readonly string[], execArgv: string[]): Part {
  // A group of its own: Ctrl-C reaches only us, and we end the two in order.
  const stdio: StdioOptions = ['ignore', 'inherit', 'inherit', 'ipc'];
  const child = fork(process.argv[1]!, args, { detached: true, stdio, execArgv });
  return {
    child,
    ready: new Promise((resolve) => child.once('message', () => resolve())),
    ended: new Promise((resolve) => {
      child.once('exit', (_code, signal) => {
        // One that ends with an exit code has said why.
        if (signal && !child.killed) process.stderr.write(`kreplay: the ${args[0]} was ended by ${signal}\n`);
        resolve();
      });
    }),
  };
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
