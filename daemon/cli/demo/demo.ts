/** `kreplay demo`: records a small workload with a slow spot, and shows what the commands reveal about it. */
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Command } from 'commander';
import { EXIT_CODES, withHelpEnd } from '../../../agent/config/help.ts';
import { newLog } from '../../../agent/output/log.ts';
import { newPrivateFolder } from '../../../agent/process/surroundings.ts';
import { QUERY_TIMEOUT_MS_DEFAULT, SCANS_MAX_DEFAULT } from '../../http/access/scan_gate.ts';
import type { ListenAddress } from '../../http/listen_address.ts';
import { runDaemon } from '../../server/command.ts';
import { CommandError } from '../client/command_error.ts';
import { DEFAULT_URL, parseDaemonUrl } from '../client/connection.ts';
import { startAgent } from './agent_process.ts';
import { programName } from './program_name.ts';
import { waitForRecorded } from './recorded.ts';
import { nextSteps, reportText, shellWord } from './report.ts';
import { clearWorkload, folderOnDisk, runWorkload, SERVICE, TRANSACTION, writeWorkload } from './workload.ts';

const RECORDING_FILE = 'recording.kreplay';

interface Options {
  data?: string;
  serve: boolean;
}

export function demoCommand(): Command {
  const command = new Command('demo')
    .description('record a small workload with a slow spot and show it, until Ctrl-C (as root)')
    .option('--data <folder>', 'new folder to record into, and to keep (default: a temporary one)')
    .option('--no-serve', 'end after the report, for scripts')
    .action(demo);
  return withHelpEnd(command, {
    notes: 'It writes 130 MiB to a disk, records only events that carry a label, and removes what it has written.',
    examples: ['kreplay demo', 'kreplay demo --data ./demo --no-serve'],
    exitCodes: {
      ...EXIT_CODES,
      1: 'this host cannot be recorded, or the disk is full; the message states what to do',
    },
  });
}

async function demo({ data, serve }: Options): Promise<void> {
  const signal = endingSignal();
  const folder = data === undefined ? newPrivateFolder('kreplay-demo-', folderOnDisk()) : newFolder(data);
  try {
    const script = writeWorkload(folder);
    const agent = await startAgent(folder);
    try {
      await withDaemon(folder, (url) => show(url, script, { folder, kept: data !== undefined, serve, signal }));
    } finally {
      await agent.end();
    }
  } finally {
    clearWorkload(folder);
    if (data === undefined) rmSync(folder, { recursive: true, force: true });
  }
}

function endingSignal(): AbortSignal {
  const ending = new AbortController();
  // SIGPIPE: the output has no reader left. The demo cleans up in all of these cases.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGPIPE']) process.on(name, () => ending.abort());
  return ending.signal;
}

function newFolder(folder: string): string {
  try {
    mkdirSync(folder, { recursive: true });
    // Files that exist already are not the demo's, which removes what it has written.
    if (readdirSync(folder).length === 0) return resolve(folder);
  } catch (error) {
    throw new CommandError(`--data ${folder}: ${(error as Error).message}`);
  }
  throw new CommandError(`--data ${folder}: it is not empty; name a new folder`);
}

/** Runs `work` with the URL of a daemon that serves the folder: the commands' default URL, if its port is free. */
async function withDaemon(folder: string, work: (url: string) => Promise<void>): Promise<void> {
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
    log: newLog('kreplay-daemon', { logLevel: 'warn' }, process.stderr),
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
  const recording = shellWord(join(folder, RECORDING_FILE));
  const program = programName();
  if (!serve) {
    const place = { program, asked: `--recording ${recording}`, run: `--bundle ${recording}`, script };
    const rest = 'The recording is removed now; --data FOLDER keeps it.\n';
    process.stdout.write(kept ? `Go on:\n${nextSteps(recorded, place)}` : rest);
    return;
  }
  const asked = url === DEFAULT_URL ? '' : `--url ${url}`;
  const steps = nextSteps(recorded, { program, asked, run: asked, script });
  const left = kept ? `keeps ${recording}` : `removes ${folder}`;
  const page = `${url}/#v=1&view=lanes&transaction=${TRANSACTION}`;
  process.stdout.write(`Go on, in another terminal:\n${steps}Or open ${page}\nCtrl-C ends it and ${left}.\n`);
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}
