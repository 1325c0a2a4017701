/** The options of a daemon, for it and for `kreplay up`. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { type AccessFlags, refuseMeaningless, withAccessOptions } from './access/options.ts';
import { duration, positiveInteger } from './commands/option_values.ts';
import { type ListenAddress, parseListen } from './listen_address.ts';
import { DEFAULT_LIMITS } from './replay/sessions.ts';

const LISTEN_DEFAULT = '127.0.0.1:7467';

export interface DaemonFlags extends AccessFlags {
  recording?: string[];
  listen: ListenAddress;
  logSlowerThan?: bigint;
  /** Commander has true where nothing was given. */
  state: string | boolean;
  sessionsMax?: number;
  sessionIdle?: bigint;
}

/** All but `--data` and what an agent takes as well. */
export function withDaemonOptions(command: Command): Command {
  command
    .option('--recording <file>', 'recording to serve; given again: several as one time line', files)
    .addOption(
      new Option('--listen <address>', 'HOST:PORT (beyond this machine: with --tokens and TLS), or unix:/path')
        .argParser(listenAddress)
        .default(parseListen(LISTEN_DEFAULT), LISTEN_DEFAULT),
    )
    .option('--state <file>', 'where replay sessions are kept (default: sessions.sqlite in the data folder)')
    .option('--no-state', 'replay sessions end with the daemon')
    .option(
      '--sessions-max <count>',
      `replay sessions at most (default: ${DEFAULT_LIMITS.sessionsMax})`,
      positiveInteger,
    )
    .option(
      '--session-idle <duration>',
      'a replay session that is not used for so long is ended (default: "24h")',
      duration,
    )
    .option('--log-slower-than <duration>', `requests that take longer are logged (default: "1s")`, duration)
    .hook('preAction', (_command, asked) => refuseMeaningless(asked.opts<DaemonFlags>(), asked));
  return withAccessOptions(command);
}

function files(value: string, before: string[] = []): string[] {
  return [...before, value];
}

function listenAddress(value: string): ListenAddress {
  const address = parseListen(value);
  if (!address) throw new InvalidArgumentError('must be HOST:PORT, [IPV6]:PORT or unix:/path');
  return address;
}
