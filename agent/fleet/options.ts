/** Options of `kreplay fleet`: the servers, and the account to use on them. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { type ConnectionSettings, parseReplicaUrl } from '../clickhouse/connection/settings.ts';
import { isIdentifier } from '../clickhouse/statements/sql.ts';
import { DATABASE_DEFAULT } from '../config/server_settings.ts';
import { UserError } from '../process/errors.ts';

export interface ServerFlags {
  url: string[];
  database: string;
  user?: string;
  passwordFile?: string;
  tlsCa?: string;
  tlsCert?: string;
  tlsKey?: string;
  output: 'text' | 'json';
}

export function addServerOptions(command: Command): Command {
  const all = command
    .requiredOption('--url <url...>', 'each server of the fleet, such as https://db1.example:8443', parseServerUrl)
    .option('--database <name>', 'database of the fleet', parseIdentifier, DATABASE_DEFAULT)
    .option('--user <name>', 'account at the server (default: the one that it calls default)')
    .option('--password-file <file>', 'file with the password alone, which only its owner may read')
    .option('--tls-ca <file>', 'trust servers with a certificate of this CA (PEM)')
    .option('--tls-cert <file>', 'certificate of this client (PEM)')
    .option('--tls-key <file>', 'key of the certificate (PEM)');
  return addOutputOption(all);
}

export function addOutputOption(command: Command): Command {
  return command.addOption(new Option('--output <format>', 'output format').choices(['text', 'json']).default('text'));
}

export function addClusterOption(command: Command): Command {
  return command.option(
    '--cluster <name>',
    'cluster in the configuration of the servers: makes replicated tables, and one over all shards for each (default: that of the tables that are there)',
    parseIdentifier,
  );
}

function parseServerUrl(text: string, before: string[] = []): string[] {
  try {
    parseReplicaUrl(text);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    throw new InvalidArgumentError(error.message);
  }
  return [...before, text];
}

export function parseIdentifier(text: string): string {
  if (isIdentifier(text)) return text;
  throw new InvalidArgumentError('must be a name of letters, digits and "_"');
}

/** Returns separate settings for each server, because tables are made on every server. */
export function buildServerSettings(flags: ServerFlags): ConnectionSettings[] {
  const { url, database, user, passwordFile, tlsCa: ca, tlsCert: cert, tlsKey: key } = flags;
  return url.map((one) => ({ urls: [one], database, user, passwordFile, tls: { ca, cert, key } }));
}
