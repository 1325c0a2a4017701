/** The fleet that this host's daemon is configured to serve, for commands that read it without the daemon. */
import { Command } from 'commander';
import { CONFIG_VARIABLE, readConfiguration } from '../../../agent/config/configuration.ts';
import { declaredOf } from '../../../agent/config/setting.ts';
import { ExportError } from '../../export/errors.ts';
import { type DaemonFlags, fleetOf, withDaemonCommandOptions } from '../../server/options.ts';
import type { FleetSettings } from '../../store/fleet/open_fleet.ts';

/** Throws a UserError if there is none, or the configuration is wrong. */
export function configuredFleet(): FleetSettings {
  const declared = declaredOf(withDaemonCommandOptions(new Command('daemon')));
  const file = process.env[CONFIG_VARIABLE] || undefined;
  const { sections } = readConfiguration(new Map([['daemon', declared]]), {
    file,
    flags: new Map(),
    environment: process.env,
  });
  const settings = sections.get('daemon')!;
  const flags = Object.fromEntries(settings.map((one) => [one.declared.setting.attributeName(), one.value]));
  const fleet = fleetOf(flags as unknown as DaemonFlags);
  if (fleet) return fleet;
  throw new ExportError('no fleet is configured: set fleet-url in [daemon], or KREPLAY_DAEMON_FLEET_URL');
}
