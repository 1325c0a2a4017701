/** `kreplay daemon`: serves what an agent records. */
import { Command, InvalidArgumentError, Option } from 'commander';
import type { Logger } from 'pino';
import { buildApp } from './app.ts';
import { newLog } from './log.ts';
import { createSessions } from './replay/sessions.ts';
import { close, type ListenAddress, listen, parseListen } from './server.ts';
import { openRecordingStore } from './store/recording_store.ts';

export const DATA_DEFAULT = './data';
export const LISTEN_DEFAULT = '127.0.0.1:7467';

const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error'];

export interface DaemonOptions {
  /** A folder that an agent records into, or a recording. */
  data: string;
  listen: ListenAddress;
  /** Ends the daemon. */
  signal: AbortSignal;
  log: Logger;
  /** Called with the address that clients use, once connections are accepted. */
  onListening: (address: string) => void;
}

/** Runs until the signal; a start that can not work is a ListenError. */
export async function runDaemon({ data, listen: address, signal, log, onListening }: DaemonOptions): Promise<void> {
  const now = () => BigInt(Date.now()) * 1_000_000n;
  const store = openRecordingStore(data);
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
    .option('--data <path>', 'folder that the agent records into, or a recording', DATA_DEFAULT)
    .addOption(
      new Option('--listen <address>', 'HOST:PORT on this machine, or unix:/path')
        .argParser(listenAddress)
        .default(parseListen(LISTEN_DEFAULT), LISTEN_DEFAULT),
    )
    .addOption(new Option('--log-level <level>', 'least that is logged').choices(LOG_LEVELS).default('info'))
    .action(serve);
}

function listenAddress(value: string): ListenAddress {
  const address = parseListen(value);
  if (!address) throw new InvalidArgumentError('must be HOST:PORT, [IPV6]:PORT or unix:/path');
  return address;
}

async function serve({ data, listen, logLevel }: { data: string; listen: ListenAddress; logLevel: string }) {
  const ending = new AbortController();
  // `disconnect`: the `kreplay up` that started this process is gone. Waiting for it must not keep the process alive.
  for (const name of ['SIGINT', 'SIGTERM', 'disconnect']) process.once(name, () => ending.abort());
  process.channel?.unref();
  const onListening = (url: string) => {
    process.stdout.write(`kreplay daemon: serving ${data} at ${url}\n`);
    process.send?.('ready');
  };
  const log = newLog(logLevel, process.stderr);
  await runDaemon({ data, listen, signal: ending.signal, log, onListening });
}
