/** Where a command's answers come from: a daemon, or recordings that it serves to itself. */
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { urlOption } from './option_values.ts';

export interface PlaceOptions {
  url: string;
  recording?: string[];
}

export function withPlace(command: Command): Command {
  return command
    .addOption(urlOption())
    .addOption(
      new Option('--recording <files...>', 'recordings, straight from their files and without a daemon').conflicts(
        'url',
      ),
    );
}

/** Gives `work` the URL of who answers. */
export async function atPlace<Result>(
  { url, recording }: PlaceOptions,
  work: (url: string) => Promise<Result>,
): Promise<Result> {
  if (recording === undefined) return work(url);
  // Only here: a command that asks a daemon must not pay for loading one.
  const [{ runDaemon }, { QUERY_TIMEOUT_MS_DEFAULT, SCANS_MAX_DEFAULT }, { pino }] = await Promise.all([
    import('../../server/command.ts'),
    import('../../http/access/scan_gate.ts'),
    import('pino'),
  ]);
  const folder = privateFolder();
  const ending = new AbortController();
  const listening = Promise.withResolvers<string>();
  const daemon = runDaemon({
    places: { data: undefined, recordings: recording },
    listen: { path: folder.socketPath },
    access: { maxScans: SCANS_MAX_DEFAULT, queryTimeout: QUERY_TIMEOUT_MS_DEFAULT },
    signal: ending.signal,
    log: pino({ level: 'silent' }),
    onListening: listening.resolve,
  });
  try {
    // A daemon that cannot start ends with the reason.
    const at = await Promise.race([listening.promise, daemon]);
    return await work(at ?? url);
  } finally {
    ending.abort();
    await daemon.finally(() => folder.remove());
  }
}

const ENDING_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** A folder of this user's own for a socket, which is gone however the process ends, but for SIGKILL. */
function privateFolder(): { socketPath: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'kreplay-'));
  // A socket's address has room for 107 bytes, and the temporary folder may have a longer name: unix(7).
  const descriptor = openSync(path, 'r');
  const removeFiles = () => rmSync(path, { recursive: true, force: true });
  const endBy = (signal: NodeJS.Signals) => {
    remove();
    // Beside this one there is the daemon's, which reads certificates again at SIGHUP.
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
