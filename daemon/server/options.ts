/** The options of a daemon, for `kreplay daemon` and `kreplay up`. */
import type { Command } from 'commander';
import { DATA_DEFAULT } from '../../agent/config/configuration.ts';
import { Setting } from '../../agent/config/setting.ts';
import { DURATION, POSITIVE_INTEGER, textAs } from '../../agent/config/values.ts';
import { withLogOptions } from '../../agent/output/log.ts';
import { type AccessFlags, invalidCombination, withAccessOptions } from '../http/access/options.ts';
import { type ListenAddress, parseListen } from '../http/listen_address.ts';
import { DEFAULT_LIMITS } from '../replay/session/sessions.ts';

export interface DaemonFlags extends AccessFlags {
  recording?: string[];
  listen: ListenAddress;
  logSlowerThan: bigint;
  /** Commander sets this to true if neither option is given. */
  state: string | boolean;
  sessionsMax: number;
  replayRateMax?: number;
  sessionIdle: bigint;
}

const LISTEN_ADDRESS = textAs(parseListen, 'must be HOST:PORT, [IPV6]:PORT or unix:/path');

/** Adds all options except `--data` and those that an agent takes as well. */
export function withDaemonOptions(command: Command): Command {
  command
    .addOption(new Setting('--recording <file...>', 'recording to serve; several are merged into one time line'))
    .addOption(
      new Setting('--listen <address>', 'HOST:PORT or unix:/path; beyond this machine it requires --tokens and TLS')
        .takes(LISTEN_ADDRESS)
        .defaultText('127.0.0.1:7467'),
    )
    .addOption(
      new Setting(
        '--state <file>',
        'file that replay sessions are stored in (default: sessions.sqlite in the data folder)',
      ),
    )
    .addOption(new Setting('--no-state', 'do not store replay sessions: they end with the daemon'))
    .addOption(
      new Setting('--sessions-max <count>', 'maximum number of replay sessions')
        .takes(POSITIVE_INTEGER)
        .default(DEFAULT_LIMITS.sessionsMax),
    )
    .addOption(
      new Setting(
        '--replay-rate-max <count>',
        'maximum number of events per second that all replay sessions play together (default: measured at start)',
      ).takes(POSITIVE_INTEGER),
    )
    .addOption(
      new Setting('--session-idle <duration>', 'end replay sessions that are unused for this long')
        .takes(DURATION)
        .defaultText(`${DEFAULT_LIMITS.idleMs / 3_600_000}h`),
    )
    .addOption(
      new Setting('--log-slower-than <duration>', 'log requests that take longer').takes(DURATION).defaultText('1s'),
    )
    .hook('preAction', (_command, asked) => {
      const wrong = invalidCombination(asked.opts<DaemonFlags>());
      if (wrong) asked.error(`error: ${wrong}`);
    });
  return withAccessOptions(command);
}

/** Adds all options of the daemon. */
export function withDaemonCommandOptions(command: Command): Command {
  const data = `folder that the agent records into, or a recording (default: "${DATA_DEFAULT}", none with --recording)`;
  return withLogOptions(withDaemonOptions(command.addOption(new Setting('--data <path>', data).shared())));
}

/** The daemon's section for `kreplay config`. */
export const DAEMON_SECTION = {
  declare: withDaemonCommandOptions,
  check: (flags: Record<string, unknown>) => invalidCombination(flags as unknown as DaemonFlags),
};
