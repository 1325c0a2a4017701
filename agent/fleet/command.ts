/** `kreplay fleet`: creates, upgrades and describes the tables that nodes ship to, and applies their retention. */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { type Connection, connect } from '../clickhouse/connection/connection.ts';
import type { ConnectionSettings } from '../clickhouse/connection/settings.ts';
import {
  ACCOUNT_PREFIX_DEFAULT,
  type Accounts,
  buildAccountStatements,
  buildAccountsFile,
  hashPassword,
  type PasswordHashes,
  ROLES,
  refuseSharedAccounts,
} from '../clickhouse/tables/accounts.ts';
import { type Changes, createTables, refuseUnmade, upgradeTables } from '../clickhouse/tables/changes.ts';
import type { TablePlace } from '../clickhouse/tables/ddl.ts';
import { type Found, readDatabaseState } from '../clickhouse/tables/found.ts';
import { chooseLayout, type TableLayout, type WantedLayout } from '../clickhouse/tables/layout.ts';
import { readServerVersion, type ServerVersion, toDefaultDatabase } from '../clickhouse/tables/server_version.ts';
import { addHelpEnd } from '../config/help.ts';
import { createOptionParser, createTextSchema, DURATION } from '../config/values.ts';
import { formatBytes, formatCount } from '../output/amounts.ts';
import { UserError } from '../process/errors.ts';
import { readPassword } from '../process/secret_file.ts';
import { printJsonLine } from './json_line.ts';
import {
  addClusterOption,
  addOutputOption,
  addServerOptions,
  buildServerSettings,
  parseIdentifier,
  type ServerFlags,
} from './options.ts';
import { type Retained, retain } from './retain/retain.ts';
import { addFleetConfiguration, addFleetServers, addFleetSettings, checkServerUrls } from './section.ts';
import { formatStatus, readFleetStatus } from './status.ts';

const RETAIN_EXAMPLES = [
  'kreplay fleet retain --url https://db1.example:8443 --user kr_admin --password-file ./kr_admin --age 7d --dry-run',
] as const;

interface ChangeFlags extends ServerFlags {
  cluster?: string;
}

interface InitFlags extends ChangeFlags {
  bucket?: bigint;
  storagePolicy?: string;
  accounts?: string;
  accountPrefix: string;
}

/** Bounds of a bucket's length. The upper bound limits the number of rows that a page has to read. */
const BUCKET_NS_MIN = 1_000_000_000n;
const BUCKET_NS_MAX = 3_600_000_000_000n;

const BUCKET = DURATION.refine(
  (ns) => ns >= BUCKET_NS_MIN && ns <= BUCKET_NS_MAX && BUCKET_NS_MAX % ns === 0n,
  'must divide an hour, and be at least 1s',
);

const POLICY = createTextSchema(
  (text) => (/^\w{1,64}$/.test(text) ? text : undefined),
  'must be letters, digits and "_"',
);

const EXAMPLES = {
  init: [
    'kreplay fleet init --url http://127.0.0.1:8123 --accounts ./fleet-passwords',
    'kreplay fleet init --url https://db1.example:8443 https://db2.example:8443 --cluster main',
  ],
  upgrade: ['kreplay fleet upgrade --url https://db1.example:8443 --user kr_admin --password-file ./kr_admin'],
  status: ['kreplay fleet status --url http://127.0.0.1:8123 --output json'],
  retain: RETAIN_EXAMPLES,
} as const;

export function createFleetCommand(): Command {
  const command = new Command('fleet')
    .summary('make and check ClickHouse tables for a fleet')
    .description('make, upgrade and check the ClickHouse tables of many nodes');
  const init = addClusterOption(addServerOptions(command.command('init')))
    .description('make database, tables and accounts; a second time it adds what is missing')
    .option(
      '--bucket <duration>',
      'rows of so much time lie together, for good: less for many events (default: 60s)',
      createOptionParser(BUCKET),
    )
    .option(
      '--storage-policy <name>',
      "disks for the tables, of the servers' configuration",
      createOptionParser(POLICY),
    )
    .option('--accounts <folder>', 'make the accounts; their passwords are in this folder, made if missing')
    .option(
      '--account-prefix <name>',
      'beginning of the names of the accounts: one for each fleet of a server',
      parseIdentifier,
      ACCOUNT_PREFIX_DEFAULT,
    )
    .action(runInit);
  const upgrade = addClusterOption(addServerOptions(command.command('upgrade')))
    .description('add the tables and columns that this kreplay has and the servers lack')
    .action(runUpgrade);
  const status = addOutputOption(addFleetConfiguration(command.command('status'), addFleetServers))
    .description('print version, schema, tables, free disk and nodes of each server')
    .action(runStatus);
  const retain = defineRetainCommand(command.command('retain'));
  for (const [one, examples] of [
    [init, EXAMPLES.init],
    [upgrade, EXAMPLES.upgrade],
    [status, EXAMPLES.status],
    [retain, EXAMPLES.retain],
  ] as const)
    addHelpEnd(one, { examples });
  return addHelpEnd(command, { examples: Object.values(EXAMPLES).flat() });
}

interface Changed {
  url: string;
  version: ServerVersion;
  changes: Changes;
}

const nowNs = (): bigint => BigInt(Date.now()) * 1_000_000n;

interface Server {
  settings: ConnectionSettings;
  version: ServerVersion;
  found: Found;
}

async function readServers(flags: ServerFlags): Promise<Server[]> {
  const servers: Server[] = [];
  for (const settings of buildServerSettings(flags)) {
    const version = await readServerVersion(settings);
    const found = await runWithConnection(settings, (connection) => readDatabaseState(connection, settings.urls[0]!));
    servers.push({ settings, version, found });
  }
  return servers;
}

async function runInit(flags: InitFlags): Promise<void> {
  const { database, cluster, storagePolicy, bucket, accounts: folder, accountPrefix: prefix } = flags;
  const accounts =
    folder === undefined ? undefined : { database, prefix, hashes: computePasswordHashes(folder, prefix) };
  const servers = await readServers(flags);
  const layout = chooseAgreedLayout(servers, { database, cluster, storagePolicy, bucketNs: bucket });
  // Accounts are checked through the default database, because the fleet's database may not exist yet.
  for (const { settings, version } of accounts ? servers : [])
    if (version.isCurrent)
      await runWithConnection(toDefaultDatabase(settings), (outside) => refuseSharedAccounts(outside, accounts!));
  for (const { settings, version } of servers) {
    const place: TablePlace = { database, version, ...layout };
    const changes = await createTables(settings, place, { bucketNs: layout.bucketNs, nowNs: nowNs() });
    if (accounts && version.isCurrent) await makeAccounts(settings, { ...accounts, cluster: layout.cluster });
    report(flags, { url: settings.urls[0]!, version, changes });
    if (flags.output === 'json') continue;
    if (!accounts) process.stdout.write('no accounts were made: --accounts FOLDER makes them\n');
    else if (version.isCurrent) process.stdout.write(`accounts are ready; their passwords are in ${folder}\n`);
    else
      process.stdout.write(
        `this version has no GRANT: each account can do with all of ${database} what its profile allows, so ${prefix}ship can read events.\nPut this into users.d/${database}.xml of the server:\n${buildAccountsFile({ ...accounts, cluster: layout.cluster })}`,
      );
  }
}

/** Returns the layout that all servers agree on. Throws if they disagree, before any server is changed. */
function chooseAgreedLayout(
  servers: readonly Server[],
  { database, ...wanted }: WantedLayout & { database: string },
): TableLayout {
  const founds = servers.map(({ found }) => found);
  // Old servers have no storage policies.
  const storagePolicy = servers.every(({ version }) => version.isCurrent) ? wanted.storagePolicy : undefined;
  return chooseLayout(founds, { ...wanted, storagePolicy }, database);
}

async function makeAccounts(settings: ConnectionSettings, accounts: Accounts): Promise<void> {
  await runWithConnection(settings, async (connection) => {
    for (const statement of buildAccountStatements(accounts)) await connection.run(statement);
  });
}

async function runWithConnection<T>(
  settings: ConnectionSettings,
  work: (connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = connect(settings);
  try {
    return await work(connection);
  } finally {
    connection.close();
  }
}

async function runUpgrade(flags: ChangeFlags): Promise<void> {
  const { database, cluster } = flags;
  const servers = await readServers(flags);
  for (const { found } of servers) refuseUnmade(found, database);
  const layout = chooseAgreedLayout(servers, { database, cluster });
  for (const { settings, version } of servers) {
    const changes = await runWithConnection(settings, (connection) =>
      upgradeTables(connection, { database, version, ...layout }, nowNs()),
    );
    report(flags, { url: settings.urls[0]!, version, changes });
  }
}

function report({ database, output }: ServerFlags, { url, version, changes: { added, meta } }: Changed): void {
  if (output === 'json') {
    const schema = { version: meta.schemaVersion, bucket_ns: meta.bucketNs };
    printJsonLine({ url, version: version.text, supported: version.isCurrent, database, schema, added });
    return;
  }
  const trial = version.isCurrent ? '' : `ClickHouse ${version.text} is for trials: use 24.8 or later\n`;
  const done = added.length > 0 ? `added ${added.join(', ')}` : 'nothing to add';
  process.stdout.write(`${url}: ${database} has schema ${meta.schemaVersion}: ${done}\n${trial}`);
}

async function runStatus(flags: Omit<ServerFlags, 'url'> & { url?: string[] }): Promise<void> {
  for (const settings of buildServerSettings({ ...flags, url: checkServerUrls(flags.url) })) {
    const status = await readFleetStatus(settings);
    if (flags.output === 'json') printJsonLine(status);
    else process.stdout.write(formatStatus(status));
  }
}

/* Reads or makes the passwords of a fleet's accounts: a folder with one file for each account. */

const PASSWORD_BYTES = 24;

/** Returns hashes instead of passwords, because a server logs the statements that contain them. Throws a UserError. */
function computePasswordHashes(folder: string, prefix: string): PasswordHashes {
  return new Map(ROLES.map((role) => [role, hashPassword(readOrCreatePassword(join(folder, prefix + role)))]));
}

function readOrCreatePassword(path: string): string {
  try {
    if (!existsSync(path)) {
      mkdirSync(join(path, '..'), { recursive: true, mode: 0o700 });
      writeFileSync(path, `${randomBytes(PASSWORD_BYTES).toString('base64url')}\n`, { mode: 0o600, flag: 'wx' });
    }
  } catch (error) {
    throw new UserError(`cannot make ${path}: ${(error as NodeJS.ErrnoException).code}`);
  }
  const password = readPassword(path, {});
  if (password === '') throw new UserError(`${path} is empty: remove it, and it is made again`);
  return password;
}

/* `kreplay fleet retain`: drops the oldest hours, by age and by free disk. */

interface RetainFlags extends Omit<ServerFlags, 'url'> {
  url?: string[];
  age?: bigint;
  free: number;
  dryRun: boolean;
}

/** Adds the description, options and action to the command `retain`. */
function defineRetainCommand(command: Command): Command {
  command.description('drop the oldest hours of all tables: by age, and while a disk is short');
  addFleetConfiguration(command, addFleetSettings);
  return addOutputOption(command)
    .option('--dry-run', 'print what would be dropped, and change nothing', false)
    .action(run);
}

async function run(flags: RetainFlags): Promise<void> {
  const { url, age, free, dryRun, output } = flags;
  const all = await retain(buildServerSettings({ ...flags, url: checkServerUrls(url) }), {
    ageNs: age,
    freePercent: free === 0 ? undefined : free,
    isDryRun: dryRun,
    nowNs: BigInt(Date.now()) * 1_000_000n,
    note: (message) => process.stderr.write(`kreplay fleet retain: ${message}\n`),
  });
  for (const one of all) {
    if (output === 'json') printJsonLine(toJsonReport(one, dryRun));
    else process.stdout.write(formatRetained(one, dryRun));
  }
}

function toJsonReport({ urls, oldestNs, hours, events, bytes, pins }: Retained, isDryRun: boolean) {
  return { urls, dry_run: isDryRun, oldest_ns: oldestNs, dropped: { hours, events, bytes }, pins_copied: pins };
}

function formatRetained({ urls, oldestNs, hours, events, bytes, pins }: Retained, isDryRun: boolean): string {
  const what = `${formatCount(hours, 'hour')}: ${formatCount(events, 'event')}, ${formatBytes(Number(bytes))}`;
  const oldest = oldestNs > 0n ? `; kept from ${new Date(Number(oldestNs / 1_000_000n)).toISOString()} on` : '';
  const copied = pins > 0 ? `; ${formatCount(pins, 'pin')} completed before` : '';
  return `${urls.join(', ')}: ${isDryRun ? 'would drop' : 'dropped'} ${what}${copied}${oldest}\n`;
}
