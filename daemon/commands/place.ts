/** Where a command's answers come from: a daemon, or recordings that it serves to itself. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import { pino } from 'pino';
import { QUERY_TIMEOUT_MS_DEFAULT, SCANS_MAX_DEFAULT } from '../access/scan_gate.ts';
import { runDaemon } from '../command.ts';
import { DEFAULT_URL } from './connection.ts';
import { daemonUrl, URL_HELP } from './option_values.ts';

export interface PlaceOptions {
  url: string;
  recording?: string[];
}

export function withPlace(command: Command): Command {
  return command
    .option('--url <url>', URL_HELP, daemonUrl, DEFAULT_URL)
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
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-'));
  const ending = new AbortController();
  const listening = Promise.withResolvers<string>();
  const daemon = runDaemon({
    places: { data: undefined, recordings: recording },
    listen: { path: join(folder, 'socket') },
    access: { maxScans: SCANS_MAX_DEFAULT, queryTimeout: QUERY_TIMEOUT_MS_DEFAULT },
    signal: ending.signal,
    log: pino({ level: 'silent' }),
    onListening: listening.resolve,
  });
  try {
    // A daemon that can not start ends with the reason.
    const at = await Promise.race([listening.promise, daemon]);
    return await work(at ?? url);
  } finally {
    ending.abort();
    await daemon.finally(() => rmSync(folder, { recursive: true }));
  }
}
