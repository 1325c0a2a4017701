/** `kreplay up`: runs an agent and a daemon for one data folder, each in a separate process. */
import { type ChildProcess, type ForkOptions, fork, type StdioOptions } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { Command } from 'commander';
import { addAgentOptions } from '../../agent/command.ts';
import { addConfigOption, attachConfiguration } from '../../agent/config/configuration.ts';
import { addHelpEnd, EXIT_CODES } from '../../agent/config/help.ts';
import { listDeclared } from '../../agent/config/setting.ts';
import { addLogOptions } from '../../agent/output/log.ts';
import { createEndingSignal } from '../../agent/process/ending.ts';
import { HOST_UNFIT_EXIT_CODE } from '../../agent/process/errors.ts';
import { createServiceManager } from '../../agent/process/service_manager.ts';

/** Maximum time for a child process to end before it is killed. Killing an agent does not damage its recording. */
const END_TIMEOUT_MS = 10_000;

interface UpFlags {
  data: string;
  tokens?: string;
}

/**
 * Creates the command. `withDaemonOptions` adds the daemon's options except for three groups: the data folder, the log
 * options, and options that only `kreplay daemon` has. `withAllDaemonOptions` also adds the last group.
 */
export function createUpCommand(
  withDaemonOptions: (command: Command) => Command,
  withAllDaemonOptions: (command: Command) => Command,
): Command {
  const command = new Command('up')
    .summary('record this host and serve what is recorded')
    .description('record this host and serve what is recorded, until Ctrl-C');
  const configuration = attachConfiguration(command);
  const forBoth = addForwardedOptions(command.optionsGroup('Both:'), (both) => addConfigOption(addLogOptions(both)));
  const both = listDeclared(command);
  const forAgent = addForwardedOptions(command.optionsGroup('Agent:'), addAgentOptions);
  const agents = listDeclared(command);
  const forDaemon = addForwardedOptions(command.optionsGroup('Daemon:'), withDaemonOptions);
  const daemons = listDeclared(command).slice(agents.length);
  // Both processes use the agent's data folder, so `data` of the agent's section takes precedence.
  const folder = agents.filter(({ setting }) => setting.key === 'data');
  // The configuration file may contain daemon settings for which `kreplay up` has no option; the daemon reads these
  // itself.
  const known = new Set([...both, ...folder, ...daemons].map(({ setting }) => setting.key));
  const others = listDeclared(withAllDaemonOptions(new Command())).filter(({ setting }) => !known.has(setting.key));
  configuration.declare('daemon', [...both, ...folder, ...daemons, ...others]).declare('agent', agents);
  command.action((flags: UpFlags) =>
    runUp(flags, {
      agent: ['agent', ...forAgent, ...forBoth],
      daemon: ['daemon', `--data=${flags.data}`, ...forDaemon, ...forBoth],
    }),
  );
  return addHelpEnd(command, {
    examples: ['kreplay up', 'kreplay up --data /var/lib/kreplay --only-labelled --listen unix:/run/kreplay.sock'],
    exitCodes: {
      ...EXIT_CODES,
      0: 'ended by Ctrl-C or SIGTERM',
      1: 'the agent or the daemon ended by itself; standard error states the cause',
      [HOST_UNFIT_EXIT_CODE]: 'this host cannot be recorded, or not by this user: run `kreplay doctor`',
    },
  });
}

/**
 * Adds options with `declare`, to pass them on to another process. Returns an array that parsing fills with the given
 * options in the form `--name` or `--name=value`.
 */
export function addForwardedOptions(command: Command, declare: (command: Command) => Command): readonly string[] {
  const own = new Set(command.options);
  declare(command);
  const given: string[] = [];
  for (const option of command.options.filter((one) => !own.has(one))) {
    // commander emits this event once for each value of an option with several values.
    command.on(`option:${option.name()}`, (value?: string | null) => {
      given.push(value == null ? option.long! : `${option.long}=${value}`);
    });
  }
  return given;
}

/**
 * The flags that the launcher passes to Node for a daemon. This process itself runs with the flags for an agent, which
 * save memory.
 */
const DAEMON_FLAGS = [
  '--no-maglev',
  '--v8-pool-size=1',
  '--no-parallel-scavenge',
  '--max-semi-space-size=8',
  '--initial-old-space-size=48',
];
/** Environment variables that the launcher sets only for a daemon. */
const DAEMON_ENVIRONMENT = { MALLOC_ARENA_MAX: '1' };

async function runUp({ data, tokens }: UpFlags, args: Record<'agent' | 'daemon', string[]>): Promise<void> {
  // This also removes the service manager's variables from the environment. This process may be a service, but its
  // children must not report to the service manager.
  const manager = createServiceManager();
  const signal = createEndingSignal();
  const agent = start(args.agent, { execArgv: process.execArgv });
  const parts = [agent];
  process.on('SIGHUP', () => {
    // Waits until a child is ready, because SIGHUP would kill a child that does not handle it yet.
    for (const { ready, child } of parts) void ready.then(() => child.kill('SIGHUP'));
  });
  let ended = Promise.race([waitForAbort(signal), agent.ended]);
  if (await Promise.race([agent.ready.then(() => true), ended.then(() => false)])) {
    // The daemon starts after the agent, because the agent creates the folder in which the daemon stores its sessions.
    const daemon = start(args.daemon, { execArgv: DAEMON_FLAGS, env: { ...process.env, ...DAEMON_ENVIRONMENT } });
    parts.push(daemon);
    ended = Promise.race([ended, daemon.ended]);
    await Promise.race([
      ended,
      daemon.ready.then((url) => {
        manager.reportReady(`serving at ${url}`);
        manager.watch(() => true);
        printNextSteps(data, url, tokens !== undefined);
      }),
    ]);
  }
  await ended;
  manager.reportStopping();
  // Only an end by a signal is a success. A process that ended by itself has reported the reason on stderr.
  if (!signal.aborted) process.exitCode = agent.child.exitCode === HOST_UNFIT_EXIT_CODE ? HOST_UNFIT_EXIT_CODE : 1;
  await Promise.all(parts.map(({ child }) => end(child)));
}

interface ChildPart {
  child: ChildProcess;
  /** Resolves with the first message of the process, which it sends when it is ready. */
  ready: Promise<string>;
  ended: Promise<void>;
}

function start(args: readonly string[], options: Pick<ForkOptions, 'execArgv' | 'env'>): ChildPart {
  // The child has its own process group, so Ctrl-C reaches only this process, which then ends the children in order.
  const stdio: StdioOptions = ['ignore', 'inherit', 'inherit', 'ipc'];
  const child = fork(process.argv[1]!, args, { detached: true, stdio, ...options });
  return {
    child,
    ready: new Promise((resolve) => child.once('message', (message) => resolve(String(message)))),
    ended: new Promise((resolve) => {
      child.once('exit', (_code, signal) => {
        // A process that ended with an exit code has already reported the reason.
        if (signal && !child.killed) process.stderr.write(`kreplay: the ${args[0]} was ended by ${signal}\n`);
        resolve();
      });
    }),
  };
}

function waitForAbort(signal: AbortSignal): Promise<void> {
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

const INSTALLED = '/usr/bin/kreplay';

/** Returns the command that starts kreplay in this shell: its name if it is installed, else the launcher's path. */
function ownName(): string {
  const launcher = join(dirname(process.argv[1]!), '../kreplay');
  const isInstalled = existsSync(INSTALLED) && realpathSync(INSTALLED) === launcher;
  return isInstalled ? basename(INSTALLED) : relative(process.cwd(), launcher);
}

function printNextSteps(data: string, url: string, needsToken: boolean): void {
  const credentials = needsToken ? '-H "Authorization: Bearer $KREPLAY_TOKEN" ' : '';
  const socket = url.startsWith('unix:') ? `--unix-socket ${url.slice(5)} ` : '';
  const base = socket ? 'http://localhost' : url;
  // The id is random, because an id that was used before would continue the earlier transaction.
  const id = `order-${randomBytes(2).toString('hex')}`;
  process.stdout.write(`
Try next, in another terminal:
  ${ownName()} exec --transaction ${id} -- dd if=/dev/zero of=${data}/f bs=4k count=100 oflag=direct
  ${ownName()} show ${id} --url ${url}
  curl ${credentials}${socket}'${base}/api/transactions/${id}/explain'
Ctrl-C ends both.
`);
}
