/** `kreplay daemon`: serves what agents record. */
import { Command, InvalidArgumentError, Option } from 'commander';
import type { Logger } from 'pino';
import { buildApp } from './app.ts';
import { DATA_DEFAULT } from './commands/option_values.ts';
import { newLog } from './log.ts';
import { createSessions } from './replay/sessions.ts';
import { close, type ListenAddress, listen, parseListen } from './server.ts';
import { checkRecordings } from './store/recording_files.ts';
import { openRecordingStore } from './store/recording_store.ts';
import type { Places } from './store/served_files.ts';

const LISTEN_DEFAULT = '127.0.0.1:7467';

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error'];

export interface DaemonOptions {
  /** What is served. */
  places: Places;
  listen: ListenAddress;
  /** Ends the daemon. */
  signal: AbortSignal;
  log: Logger;
  /** Called with the address that clients use, once connections are accepted. */
  onListening: (address: string) => void;
}

/** Runs until the signal; a start that can not work is a ListenError, or a RecordingError of one that has to be there. */
export async function runDaemon({ places, listen: address, signal, log, onListening }: DaemonOptions): Promise<void> {
  const now = () => BigInt(Date.now()) * 1_000_000n;
  checkRecordings(places.recordings);
  const store = openRecordingStore(places.data, places.recordings);
  const sessions = createSessions({ store, now });
  try {
    const app = buildApp({ store, sessions, now, log });
    const [server, url] = await listen(app, address);
    onListening(url);
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    // First: it ends the streams, which nothing else would.
    sessions.close();
    await close(server);
  } finally {
    sessions.close();
    store.close();
  }
}

export function daemonCommand(): Command {
  return new Command('daemon')
    .description('serve recorded events and replay them')
    .option(
      '--data <path>',
      `folder that the agent records into, or a recording (default: "${DATA_DEFAULT}", none with --recording)`,
    )
    .option('--recording <file>', 'recording to serve; given again: several as one time line', files)
    .addOption(
      new Option('--listen <address>', 'HOST:PORT on this machine, or unix:/path')
        .argParser(listenAddress)
        .default(parseListen(LISTEN_DEFAULT), LISTEN_DEFAULT),
    )
    .addOption(new Option('--log-level <level>', 'least that is logged').choices(LOG_LEVELS).default('info'))
    .action(serve);
}

function files(value: string, before: string[] = []): string[] {
  return [...before, value];
}

function listenAddress(value: string): ListenAddress {
  const address = parseListen(value);
  if (!address) throw new InvalidArgumentError('must be HOST:PORT, [IPV6]:PORT or unix:/path');
  return address;
}

interface DaemonFlags {
  data?: string;
  recording?: string[];
  listen: ListenAddress;
  logLevel: string;
}

async function serve({ data: given, recording: recordings = [], listen, logLevel }: DaemonFlags): Promise<void> {
  const ending = new AbortController();
  // `disconnect`: the `kreplay up` that started this process is gone. Waiting for it must not keep the process alive.
  for (const name of ['SIGINT', 'SIGTERM', 'disconnect']) process.once(name, () => ending.abort());
  process.channel?.unref();
  const data = given ?? (recordings.length === 0 ? DATA_DEFAULT : undefined);
  const onListening = (url: string) => {
    const served = [data, ...recordings].filter((place) => place !== undefined);
    process.stdout.write(`kreplay daemon: serving ${served.join(', ')} at ${url}\n`);
    process.send?.('ready');
  };
  const log = newLog(logLevel, process.stderr);
  await runDaemon({ places: { data, recordings }, listen, signal: ending.signal, log, onListening });
}
