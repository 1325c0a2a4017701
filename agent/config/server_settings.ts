/** Settings for the servers of a fleet, which `ship` and `daemon` share. */
import type { Command } from 'commander';
import { Setting } from './setting.ts';
import { createTextSchema } from './values.ts';

const DATABASE = createTextSchema(
  (text) => (/^\w{1,64}$/.test(text) ? text : undefined),
  'must be letters, digits and "_"',
);

/** Default name of a fleet's database. */
export const DATABASE_DEFAULT = 'kreplay';

/** Adds the settings to a command. `prefix` comes before each option's name; `urls` describes the addresses. */
export function addServerSettings(command: Command, prefix: '' | 'fleet-', urls: string): Command {
  return command
    .addOption(new Setting(`--${prefix}url <url...>`, urls))
    .addOption(
      new Setting(`--${prefix}database <name>`, 'database of the fleet').takes(DATABASE).defaultText(DATABASE_DEFAULT),
    )
    .addOption(new Setting(`--${prefix}user <name>`, 'account at the server (default: the one that it calls default)'))
    .addOption(
      new Setting(`--${prefix}password-file <file>`, 'file with the password alone, which only its owner may read'),
    )
    .addOption(new Setting(`--${prefix}tls-ca <file>`, 'trust servers with a certificate of this CA (PEM)'))
    .addOption(new Setting(`--${prefix}tls-cert <file>`, 'certificate of this client (PEM)'))
    .addOption(new Setting(`--${prefix}tls-key <file>`, 'key of the certificate (PEM)'));
}
