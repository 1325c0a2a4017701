/**
 * The accounts of a fleet and their rights. They are created by statements, or by a file for old servers, which have no
 * rights for single tables.
 */
import { createHash } from 'node:crypto';
import { UserError } from '../../process/errors.ts';
import type { Connection } from '../connection/connection.ts';
import { readTypedRows } from '../connection/rows.ts';
import { columns, identifier, list, type Sql, sql, text, word } from '../statements/sql.ts';

/**
 * The users of the accounts. `ship`: nodes; `read`: the central daemon; `pin`: the daemon's pins; `admin`: `kreplay
 * fleet`.
 */
export const ROLES = ['ship', 'read', 'pin', 'admin'] as const;
export type AccountRole = (typeof ROLES)[number];

/**
 * Default prefix of account names. Accounts belong to a server, not to a database, so fleets that share a server need
 * different prefixes.
 */
export const ACCOUNT_PREFIX_DEFAULT = 'kr_';

export interface Accounts {
  database: string;
  /** Prefix of the account names; the role follows it. */
  prefix: string;
  hashes: PasswordHashes;
  cluster?: string | undefined;
}

const SHIPPED = ['event', 'by_id', 'transaction', 'stat', 'name', 'loss', 'clock', 'node', 'segment'] as const;
/** Columns of `event` that reveal neither the content of events nor their owners. */
const COUNTED = ['recording', 'number', 'timestamp_ns', 'duration_ns'] as const;
/** Columns of `segment` that show which segments a server has. */
const COMMITTED = ['recording', 'first_number', 'end_number'] as const;
const PINNED = ['pin', 'pinned_event', 'pinned_by_id', 'pinned_transaction'] as const;

/** Limits of a query of the account `read`. The server stops a query that exceeds them, which protects the server. */
const READ_SECONDS_MAX = 60;
const READ_BYTES_MAX = 4_000_000_000;

export type PasswordHashes = ReadonlyMap<AccountRole, string>;

export function hashPassword(password: string): string {
  return createHash('sha256').update(password).digest('hex');
}

/** Throws a UserError if one of these accounts has rights in another database. Only newer servers can report that. */
export async function refuseSharedAccounts(
  connection: Connection,
  { database, prefix }: Pick<Accounts, 'database' | 'prefix'>,
): Promise<void> {
  const [shared] = await readTypedRows(connection, buildSharedAccountsSql(database, prefix), {
    account: 'text',
    other: 'text',
  });
  if (shared)
    throw new UserError(
      `the account ${shared.account} has rights in the database ${shared.other}: pass --account-prefix NAME_ for accounts of ${database} alone`,
    );
}

export function buildSharedAccountsSql(database: string, prefix: string): Sql {
  const names = list(ROLES.map((role) => text(prefix + role)));
  return sql`SELECT assumeNotNull(user_name) AS account, assumeNotNull(database) AS other FROM system.grants
    WHERE user_name IN (${names}) AND database NOT IN ('', 'system', ${text(database)}) ORDER BY account, other LIMIT 1`;
}

/** Builds the statements for newer servers. Running them again applies changed passwords and limits. */
export function buildAccountStatements({ database, prefix, hashes, cluster }: Accounts): Sql[] {
  const name = identifier(database);
  const all = sql`${name}.*`;
  const table = (own: string): Sql => sql`${name}.${identifier(own)}`;
  const users = ROLES.flatMap((role) => {
    const account = identifier(prefix + role);
    const identified = sql`IDENTIFIED WITH sha256_hash BY ${word(hashes.get(role)!)}`;
    return [sql`CREATE USER IF NOT EXISTS ${account} ${identified}`, sql`ALTER USER ${account} ${identified}`];
  });
  const limited = [
    sql`readonly = 1`,
    sql`max_execution_time = ${READ_SECONDS_MAX}`,
    sql`max_memory_usage = ${READ_BYTES_MAX}`,
    sql`cancel_http_readonly_queries_on_client_close = 1`,
  ];
  const limits = list(limited);
  // While a shard is unreachable, a daemon may set `skip_unavailable_shards` to read the data of the other shards.
  const inCluster = list([...limited, sql`skip_unavailable_shards = 0 CHANGEABLE_IN_READONLY`]);
  const [ship, read, pin, admin] = ROLES.map((role) => identifier(prefix + role)) as [Sql, Sql, Sql, Sql];
  return [
    ...users,
    sql`CREATE SETTINGS PROFILE IF NOT EXISTS ${read} SETTINGS ${limits}`,
    sql`ALTER SETTINGS PROFILE ${read} SETTINGS ${limits}`,
    sql`ALTER USER ${read} SETTINGS PROFILE ${word(`${prefix}read`)}`,
    ...SHIPPED.map((own) => sql`GRANT INSERT ON ${table(own)} TO ${ship}`),
    ...['meta', 'node'].map((own) => sql`GRANT SELECT ON ${table(own)} TO ${ship}`),
    // After a lost answer to an insert, the shipper queries which rows of the insert the server has stored.
    sql`GRANT SELECT(${columns(COUNTED)}) ON ${table('event')} TO ${ship}`,
    sql`GRANT SELECT(${columns(COMMITTED)}) ON ${table('segment')} TO ${ship}`,
    ...['processes', 'replicas'].map((own) => sql`GRANT SELECT ON system.${identifier(own)} TO ${ship}`),
    sql`GRANT SELECT ON ${all} TO ${list([read, pin])}`,
    ...['parts', 'disks'].map((own) => sql`GRANT SELECT ON system.${identifier(own)} TO ${list([read, admin])}`),
    ...PINNED.map((own) => sql`GRANT INSERT, ALTER DELETE ON ${table(own)} TO ${pin}`),
    sql`GRANT SELECT, CREATE DATABASE, CREATE TABLE, ALTER COLUMN, ALTER DELETE ON ${all} TO ${admin}`,
    // Retention first completes the copies of pins, and then counts the rows that it drops.
    ...['replicas', 'clusters'].map((own) => sql`GRANT SELECT ON system.${identifier(own)} TO ${admin}`),
    ...['meta', 'loss', ...PINNED].map((own) => sql`GRANT INSERT ON ${table(own)} TO ${admin}`),
    // Even if a table over all shards exists already, a server treats it as a remote source, which needs this right.
    ...(cluster === undefined ? [] : [sql`GRANT REMOTE ON *.* TO ${admin}`]),
    // This statement comes last: a server with settings_constraints_replace_previous turned off rejects it.
    ...(cluster === undefined ? [] : [sql`ALTER SETTINGS PROFILE ${read} SETTINGS ${inCluster}`]),
  ];
}

/**
 * Builds the file for the folder users.d of a server of version 18.16, which has rights only for whole databases. In a
 * cluster, the account `read` may send all settings, because this version cannot allow a single one.
 */
export function buildAccountsFile({ database, prefix, hashes, cluster }: Accounts): string {
  const users = ROLES.map(
    (role) => `    <${prefix}${role}>
      <password_sha256_hex>${hashes.get(role)}</password_sha256_hex>
      <networks><ip>::/0</ip></networks>
      <profile>${role === 'read' ? `${prefix}read` : 'default'}</profile>
      <quota>default</quota>
      <allow_databases><database>${database}</database></allow_databases>
    </${prefix}${role}>`,
  );
  return `<yandex>
  <profiles>
    <${prefix}read>
      <readonly>${cluster === undefined ? 1 : 2}</readonly>
      <max_execution_time>${READ_SECONDS_MAX}</max_execution_time>
      <max_memory_usage>${READ_BYTES_MAX}</max_memory_usage>
    </${prefix}read>
  </profiles>
  <users>
${users.join('\n')}
  </users>
</yandex>
`;
}
