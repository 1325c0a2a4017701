/** The options of a daemon, for it and for `kreplay up`. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { type AccessFlags, refuseMeaningless, withAccessOptions } from './access/options.ts';
import { duration } from './commands/option_values.ts';
import { type ListenAddress, parseListen } from './listen_address.ts';

const LISTEN_DEFAULT = '127.0.0.1:7467';

export interface DaemonFlags extends AccessFlags {
  recording?: string[];
  listen: ListenAddress;
  logSlowerThan?: bigint;
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
