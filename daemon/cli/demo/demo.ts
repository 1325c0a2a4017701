/** `kreplay demo`: records a small workload with one slow operation, and shows what the commands report about it. */

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { addHelpEnd, EXIT_CODES } from '../../../agent/config/help.ts';
import { createLog } from '../../../agent/output/log.ts';
import { HOST_UNFIT_EXIT_CODE } from '../../../agent/process/errors.ts';
import { createPrivateFolder } from '../../../agent/process/surroundings.ts';
import { QUERY_TIMEOUT_MS_DEFAULT, SCANS_MAX_DEFAULT } from '../../http/access/scan_gate.ts';
import type { ListenAddress } from '../../http/listen_address.ts';
import { runDaemon } from '../../server/command.ts';
import { CommandError } from '../client/command_error.ts';
import { DEFAULT_URL, parseDaemonUrl } from '../client/connection.ts';
import { formatHeadline, formatSlowestTable } from '../print/transaction_report.ts';
import { findProgramName } from './program_name.ts';
import { type RecordedTransaction, waitForRecorded } from './recorded.ts';
import { clearWorkload, findDiskFolder, runWorkload, SERVICE, TRANSACTION, writeWorkload } from './workload.ts';

const RECORDING_FILE = 'recording.kreplay';

interface Options {
  data?: string;
  serve: boolean;
}

export function createDemoCommand(): Command {
  const command = new Command('demo')
    .description('record a small workload with a slow spot and show it, until Ctrl-C (as root)')
    .option('--data <folder>', 'new folder to record into, and to keep (default: a temporary one)')
    .option('--no-serve', 'end after the report, for scripts')
    .action(runDemo);
  return addHelpEnd(command, {
    notes: 'It writes 130 MiB to a disk, records only events that carry a label, and removes what it has written.',
    examples: ['kreplay demo', 'kreplay demo --data ./demo --no-serve'],
    exitCodes: {
      ...EXIT_CODES,
      1: 'the demo failed, such as on a full disk; the message states what to do',
      [HOST_UNFIT_EXIT_CODE]:
        'this host cannot be recorded, or the user may not record it; the message states what to do',
    },
  });
}

async function runDemo({ data, serve }: Options): Promise<void> {
  const signal = createEndingSignal();
  const folder = data === undefined ? createPrivateFolder('kreplay-demo-', findDiskFolder()) : createEmptyFolder(data);
  try {
    const script = writeWorkload(folder);
    const agent = await startAgent(folder);
    try {
      await runWithDaemon(folder, (url) => show(url, script, { folder, kept: data !== undefined, serve, signal }));
    } finally {
      await agent.end();
    }
  } finally {
    clearWorkload(folder);
    if (data === undefined) rmSync(folder, { recursive: true, force: true });
  }
}

function createEndingSignal(): AbortSignal {
  const ending = new AbortController();
  // SIGPIPE means that the reader of the output is gone. The demo cleans up after each of these signals.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGPIPE']) process.on(name, () => ending.abort());
  return ending.signal;
}

function createEmptyFolder(folder: string): string {
  try {
    mkdirSync(folder, { recursive: true });
    // The folder must be empty, because the demo later removes its own files from it and must not remove any others.
    if (readdirSync(folder).length === 0) return resolve(folder);
  } catch (error) {
    throw new CommandError(`--data ${folder}: ${(error as Error).message}`);
  }
  throw new CommandError(`--data ${folder}: it is not empty; name a new folder`);
}

/**
 * Starts a daemon that serves the folder, and runs `work` with the daemon's URL. The daemon uses the default port if it
 * is free.
 */
async function runWithDaemon(folder: string, work: (url: string) => Promise<void>): Promise<void> {
  const { host, port } = parseDaemonUrl(DEFAULT_URL) as { host: string; port: number };
  const daemon = await startDaemon(folder, { host, port }).catch((error: Error) => {
    if (error.name !== 'ListenError') throw error;
    return startDaemon(folder, { host, port: 0 });
  });
  try {
    await work(daemon.url);
  } finally {
    await daemon.end();
  }
}

async function startDaemon(folder: string, listen: ListenAddress) {
  const ending = new AbortController();
  const listening = Promise.withResolvers<string>();
  const daemon = runDaemon({
    places: { data: folder, recordings: [] },
    listen,
    access: { maxScans: SCANS_MAX_DEFAULT, queryTimeout: QUERY_TIMEOUT_MS_DEFAULT },
    signal: ending.signal,
    log: createLog('kreplay-daemon', { logLevel: 'warn' }, process.stderr),
    onListening: listening.resolve,
  });
  const url = await Promise.race([listening.promise, daemon]);
  const end = () => {
    ending.abort();
    return daemon;
  };
  return { url: url!, end };
}

interface Stage {
  folder: string;
  kept: boolean;
  serve: boolean;
  signal: AbortSignal;
}

async function show(url: string, script: string, { folder, kept, serve, signal }: Stage): Promise<void> {
  process.stdout.write(`kreplay demo: recording ${TRANSACTION} of ${SERVICE}: sh ${script}\n\n`);
  const { fromNs, toNs } = await runWorkload(script, signal);
  const recorded = await waitForRecorded(url, fromNs, toNs);
  process.stdout.write(`${reportText(recorded)}\n`);
  const recording = quoteShellWord(join(folder, RECORDING_FILE));
  const program = findProgramName();
  if (!serve) {
    const place = { program, asked: `--recording ${recording}`, run: `--bundle ${recording}`, script };
    const rest = 'The recording is removed now; --data FOLDER keeps it.\n';
    process.stdout.write(kept ? `Go on:\n${formatNextSteps(recorded, place)}` : rest);
    return;
  }
  const asked = url === DEFAULT_URL ? '' : `--url ${url}`;
  const steps = formatNextSteps(recorded, { program, asked, run: asked, script });
  const left = kept ? `keeps ${recording}` : `removes ${folder}`;
  const page = `${url}/#v=1&view=lanes&transaction=${TRANSACTION}`;
  process.stdout.write(`Go on, in another terminal:\n${steps}Or open ${page}\nCtrl-C ends it and ${left}.\n`);
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}

/* The demo's agent, which runs in a separate process. */

/** Maximum time for an agent to end before it is killed. Killing an agent does not damage its recording. */
const END_TIMEOUT_MS = 10_000;

interface AgentProcess {
  /** Ends the process; resolves when it has exited. */
  end(): Promise<void>;
}

/**
 * Starts the agent; resolves when all its probes are attached. The agent records only labelled events, so it records no
 * other programs of this host.
 */
async function startAgent(dataFolder: string): Promise<AgentProcess> {
  // The agent has its own process group, so Ctrl-C reaches only the demo, which then ends the agent. If the demo is
  // killed, the agent ends by itself.
  const child = fork(process.argv[1]!, ['agent', `--data=${dataFolder}`, '--only-labelled'], {
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  let complaints = '';
  const gather = (text: string) => {
    complaints += text;
  };
  child.stderr!.setEncoding('utf8').on('data', gather);
  const ended = once(child, 'close');
  const isReady = await Promise.race([once(child, 'message').then(() => true), ended.then(() => false)]);
  if (!isReady) throw createAgentFailure(complaints, child.exitCode);
  child.stderr!.off('data', gather).pipe(process.stderr, { end: false });
  return {
    async end() {
      const timer = setTimeout(() => child.kill('SIGKILL'), END_TIMEOUT_MS);
      child.kill('SIGTERM');
      await ended;
      clearTimeout(timer);
    },
  };
}

function createAgentFailure(complaints: string, exitCode: number | null): CommandError {
  const why = complaints.trim().replace(/^kreplay: /, '') || 'it reported no cause';
  const isUnfit = exitCode === HOST_UNFIT_EXIT_CODE;
  // If the host is unfit, the agent's own message already advises to run `doctor`.
  const doctor = isUnfit ? '' : `; \`${findProgramName()} doctor\` reports what this host lacks`;
  const sudo = process.getuid!() === 0 ? '' : `, so try \`sudo ${findProgramName()} demo\``;
  const message = `the demo's agent cannot record${sudo}: ${why}${doctor}`;
  return new CommandError(message, isUnfit ? HOST_UNFIT_EXIT_CODE : 1);
}

/* Formats the demo's results: a headline, the slowest calls, and commands to try next. */

const MILLISECOND_NS = 1_000_000n;

function reportText({ summary, explanation, complete }: RecordedTransaction): string {
  return `${formatHeadline(summary, explanation, complete)}

The slowest calls:
${formatSlowestTable(summary, summary.transaction)}`;
}

interface NextStepOptions {
  /** Command by which this shell can start kreplay. */
  program: string;
  /** The option `--url ...` or `--recording ...` for the commands to try; empty if the default URL applies. */
  asked: string;
  /** The corresponding option for `kreplay run`. */
  run: string;
  script: string;
}

/** Quotes text for a shell, if necessary. */
function quoteShellWord(text: string): string {
  return /^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Returns a timeout of twice the transaction's duration. */
function computeTimeout({
  summary: {
    transaction: { duration_ns },
  },
}: RecordedTransaction): string {
  return `${(BigInt(duration_ns) * 2n) / MILLISECOND_NS + 1n}ms`;
}

function formatNextSteps(recorded: RecordedTransaction, { program, asked, run, script }: NextStepOptions): string {
  const formatCommandLine = (...words: string[]) =>
    `  ${[program, ...words].filter((word) => word !== '').join(' ')}\n`;
  return [
    'what it did, call by call:\n',
    formatCommandLine('events', asked, '--transaction', TRANSACTION, '--min-duration', '1ms'),
    'whether a caller would have got its answer in time if each call had taken 2 ms longer:\n',
    formatCommandLine(
      'whatif',
      TRANSACTION,
      asked,
      '--extra-latency',
      '2ms',
      '--timeout',
      computeTimeout(recorded),
      '--output',
      'table',
    ),
    'the same program again, with every call as slow as that:\n',
    formatCommandLine(
      'run',
      run,
      '--transaction',
      TRANSACTION,
      '--extra-latency',
      '2ms',
      '--',
      'sh',
      quoteShellWord(script),
    ),
  ].join('');
}
