/**
 * Determines which daemon answers a command: a running daemon, or a temporary one that this process starts to serve the
 * given recordings.
 */
import { closeSync, openSync, rmSync } from 'node:fs';
import { type Command, Option } from 'commander';
import { createPrivateFolder } from '../../../agent/process/surroundings.ts';
import { createUrlOption } from './option_values.ts';

export interface PlaceOptions {
  url: string;
  recording?: string[];
}

export function addPlaceOptions(command: Command): Command {
  return command
    .addOption(createUrlOption())
    .addOption(new Option('--recording <files...>', 'recordings to read without a daemon').conflicts('url'));
}

/** Runs `work` with the URL of the running or temporary daemon. */
export async function runAtPlace<Result>(
  { url, recording }: PlaceOptions,
  work: (url: string) => Promise<Result>,
): Promise<Result> {
  if (recording === undefined) return work(url);
  // Imported on demand, because a command that queries a running daemon does not need the server's code.
  const [{ runDaemon }, { QUERY_TIMEOUT_MS_DEFAULT, SCANS_MAX_DEFAULT }, { pino }] = await Promise.all([
    import('../../server/command.ts'),
    import('../../http/access/scan_gate.ts'),
    import('pino'),
  ]);
  const folder = createSocketFolder();
  const ending = new AbortController();
  const listening = Promise.withResolvers<string>();
  const daemon = runDaemon({
    places: { data: undefined, recordings: recording },
    listen: { path: folder.socketPath },
    access: { maxScans: SCANS_MAX_DEFAULT, queryTimeout: QUERY_TIMEOUT_MS_DEFAULT },
    signal: ending.signal,
    log: pino({ level: 'silent' }),
    scansInThreads: false,
    onListening: listening.resolve,
  });
  try {
    // If the daemon fails to start, `daemon` rejects with the reason.
    const at = await Promise.race([listening.promise, daemon]);
    return await work(at ?? url);
  } finally {
    ending.abort();
    await daemon.finally(() => folder.remove());
  }
}

const ENDING_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Creates a private folder for a socket. The folder is also removed when the process exits or gets one of the
 * ENDING_SIGNALS; other signals leave the folder behind.
 */
function createSocketFolder(): { socketPath: string; remove: () => void } {
  const path = createPrivateFolder('kreplay-');
  // A socket's path is limited to 107 bytes (unix(7)), and the temporary folder may have a longer path. Therefore, the
  // socket is addressed through a descriptor of the folder.
  const descriptor = openSync(path, 'r');
  const removeFiles = () => rmSync(path, { recursive: true, force: true });
  const endBy = (signal: NodeJS.Signals) => {
    remove();
    // Other listeners are removed, such as the daemon's, which rereads certificates on SIGHUP. The signal then ends the
    // process.
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  };
  function remove(): void {
    for (const signal of ENDING_SIGNALS) process.off(signal, endBy);
    process.off('exit', removeFiles);
    removeFiles();
    closeSync(descriptor);
  }
  process.on('exit', removeFiles);
  for (const signal of ENDING_SIGNALS) process.on(signal, endBy);
  return { socketPath: `/proc/self/fd/${descriptor}/socket`, remove };
}
