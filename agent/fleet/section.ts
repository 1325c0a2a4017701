/** The section `[fleet]` of the configuration: the servers of a fleet, and how much they keep. */
import { Command } from 'commander';
import { parseReplicaUrl } from '../clickhouse/connection/settings.ts';
import { addConfigOption, attachConfiguration } from '../config/configuration.ts';
import { addServerSettings } from '../config/server_settings.ts';
import { listDeclared, Setting } from '../config/setting.ts';
import { createTextSchema, DURATION } from '../config/values.ts';
import { ConfigError } from '../process/errors.ts';

const AGE_NS_MIN = 3_600_000_000_000n;
const AGE = DURATION.refine((ns) => ns >= AGE_NS_MIN, 'must be at least 1h');

const FREE = createTextSchema((text) => {
  const percent = /^(\d{1,2})%$/.exec(text)?.[1];
  return percent === undefined ? undefined : Number(percent);
}, 'must be a percentage of the disk, such as 15%, or 0% to look at the age only');

/** The section as `kreplay config` checks it. */
export const FLEET_SECTION = {
  declare: addFleetSettings,
  check: () => undefined,
};

/** Adds all settings of the section: the servers' settings, and the limits of `kreplay fleet retain`. */
export function addFleetSettings(command: Command): Command {
  return addFleetServers(command)
    .addOption(new Setting('--age <duration>', 'drop what is older, such as 7d (default: no limit)').takes(AGE))
    .addOption(
      new Setting('--free <percent>', 'drop the oldest hours while less of a disk is free (not on 18.16)')
        .takes(FREE)
        .defaultText('15%'),
    );
}

export function addFleetServers(command: Command): Command {
  return addServerSettings(command, '', 'servers of the fleet, at least one of each shard');
}

/** Adds `--config`, and the settings of the section that `withSettings` adds. */
export function addFleetConfiguration(command: Command, withSettings: (command: Command) => Command): Command {
  const configuration = attachConfiguration(command);
  configuration.declare('fleet', listDeclared(addFleetSettings(new Command())));
  return addConfigOption(withSettings(command));
}

/**
 * Returns the addresses. Throws a ConfigError if neither flags nor files name a server, or if an address is invalid.
 */
export function checkServerUrls(url: readonly string[] | undefined): string[] {
  if (!url || url.length === 0)
    throw new ConfigError('there is no server: pass --url, or set `url` in the section [fleet] of kreplay.toml');
  for (const one of url) parseReplicaUrl(one);
  return [...url];
}
