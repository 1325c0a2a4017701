/** The options of a daemon, for `kreplay daemon` and `kreplay up`. */
import { Command } from 'commander';
import { parseBytes } from '../../agent/config/bytes.ts';
import { DATA_DEFAULT, readConfiguration } from '../../agent/config/configuration.ts';
import { addServerSettings } from '../../agent/config/server_settings.ts';
import { listDeclared, Setting } from '../../agent/config/setting.ts';
import { createTextSchema, DURATION, POSITIVE_INTEGER } from '../../agent/config/values.ts';
import { addLogOptions } from '../../agent/output/log.ts';
import { ConfigError } from '../../agent/process/errors.ts';
import {
  type AccessFlags,
  addAccessOptions,
  describeProtection,
  findMissingProtection,
  findOptionConflict,
} from '../http/access/options.ts';
import { type ListenAddress, parseListen } from '../http/listen_address.ts';
import { DEFAULT_LIMITS } from '../replay/session/sessions.ts';
import type { FleetSettings } from '../store/fleet/open_fleet.ts';

export interface DaemonFlags extends AccessFlags {
  recording?: string[];
  listen: ListenAddress;
  logSlowerThan: bigint;
  /** Commander sets this field to true if neither --state nor --no-state is given. */
  state: string | boolean;
  sessionsMax: number;
  replayRateMax?: number;
  sessionIdle: bigint;
  fleetUrl?: string[];
  fleetDatabase: string;
  fleetUser?: string;
  fleetPasswordFile?: string;
  fleetPinUser?: string;
  fleetPinPasswordFile?: string;
  fleetTlsCa?: string;
  fleetTlsCert?: string;
  fleetTlsKey?: string;
  fetchedBytes: number;
  fleetForget: bigint;
  tailLag: bigint;
  shipState?: string;
}

/** Minimum of `--fetched-bytes`. Copies that replays are using stay even if they exceed the limit. */
const FETCHED_BYTES_MIN = 64 << 20;
const FETCHED_BYTES = createTextSchema(parseBytes, 'must be a size, such as 2GB').refine(
  (bytes) => bytes >= FETCHED_BYTES_MIN,
  'must be at least 64MiB',
);

const LISTEN_ADDRESS = createTextSchema(parseListen, 'must be HOST:PORT, [IPV6]:PORT or unix:/path');

/** Adds all options except `--data` and the options that an agent also has. */
export function addDaemonOptions(command: Command): Command {
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
      const wrong = findInvalidFlags(asked.opts<DaemonFlags>());
      if (wrong) asked.error(`error: ${wrong}`);
    });
  return addAccessOptions(command);
}

/** Adds all options of the daemon. */
export function addDaemonCommandOptions(command: Command): Command {
  const data = `folder that the agent records into, or a recording (default: "${DATA_DEFAULT}", none with --recording)`;
  addDaemonOptions(command.addOption(new Setting('--data <path>', data).shared())).addOption(
    new Setting('--ship-state <folder>', 'state folder of `kreplay ship` on this host, for its metrics'),
  );
  return addLogOptions(addFleetOptions(command));
}

function addFleetOptions(command: Command): Command {
  addServerSettings(command, 'fleet-', 'serve a fleet: servers of its ClickHouse tables')
    .addOption(new Setting('--fleet-pin-user <name>', 'account that writes pins (default: the one that reads)'))
    .addOption(new Setting('--fleet-pin-password-file <file>', 'file with the password of that account'))
    .addOption(
      new Setting('--fleet-forget <duration>', 'a silent node is missed for this long')
        .takes(DURATION)
        .defaultText('1h'),
    );
  return command
    .addOption(
      new Setting('--fetched-bytes <size>', "disk space for copies of a fleet's transactions, which replays play")
        .takes(FETCHED_BYTES)
        .defaultText('2GB'),
    )
    .addOption(
      new Setting('--tail-lag <duration>', 'live tails of a fleet hold events back so long, for others that come later')
        .takes(DURATION)
        .defaultText('20s'),
    );
}

/** Returns the settings of the fleet that a daemon serves; undefined if it serves recordings. */
export function buildFleetSettings(flags: DaemonFlags): FleetSettings | undefined {
  const { fleetUrl: urls, fleetDatabase: database, fleetUser: user, fleetPasswordFile: passwordFile } = flags;
  if (!urls || urls.length === 0) return undefined;
  const tls = { ca: flags.fleetTlsCa, cert: flags.fleetTlsCert, key: flags.fleetTlsKey };
  const { fleetPinUser, fleetPinPasswordFile } = flags;
  const pins = fleetPinUser === undefined ? undefined : { user: fleetPinUser, passwordFile: fleetPinPasswordFile };
  return { urls, database, user, passwordFile, tls, pins };
}

/**
 * Returns the fleet that this host's daemon is configured to serve, for commands that read it without the daemon.
 * Throws a ConfigError if no fleet is configured.
 */
export function readConfiguredFleet(): FleetSettings {
  const declared = listDeclared(addDaemonCommandOptions(new Command('daemon')));
  const sources = { file: undefined, flags: new Map(), environment: process.env };
  const settings = readConfiguration(new Map([['daemon', declared]]), sources).sections.get('daemon')!;
  const flags = Object.fromEntries(settings.map((one) => [one.declared.setting.attributeName(), one.value]));
  const fleet = buildFleetSettings(flags as unknown as DaemonFlags);
  if (fleet) return fleet;
  throw new ConfigError('no fleet is configured: set fleet-url in [daemon], or KREPLAY_DAEMON_FLEET_URL');
}

function findInvalidFlags(flags: DaemonFlags): string | undefined {
  if (flags.fleetUrl?.length && flags.recording?.length)
    return '--fleet-url and --recording are for different daemons: one serves a fleet, the other files';
  if (flags.fleetPinPasswordFile !== undefined && flags.fleetPinUser === undefined)
    return '--fleet-pin-password-file needs --fleet-pin-user';
  return findOptionConflict(flags);
}

/** The daemon's section for `kreplay config`. */
export const DAEMON_SECTION = {
  declare: addDaemonCommandOptions,
  check(given: Record<string, unknown>): string | undefined {
    const flags = given as unknown as DaemonFlags;
    return findInvalidFlags(flags) ?? findMissingProtection(flags.listen, describeProtection(flags));
  },
};
