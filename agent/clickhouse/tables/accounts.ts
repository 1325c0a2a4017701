/** The accounts of a fleet and what each may do: as statements, or as a file for servers that know no rights by table. */
import { createHash } from 'node:crypto';
import { identifier, list, type Sql, sql, word } from '../statements/sql.ts';

/** `kr_ship`: nodes; `kr_read`: the central daemon; `kr_pin`: its pins; `kr_admin`: `kreplay fleet`. */
export const ACCOUNTS = ['kr_ship', 'kr_read', 'kr_pin', 'kr_admin'] as const;
export type Account = (typeof ACCOUNTS)[number];

const SHIPPED = ['event', 'by_id', 'transaction', 'stat', 'name', 'loss', 'clock', 'node', 'segment'] as const;
const PINNED = ['pin', 'pinned_event', 'pinned_by_id', 'pinned_transaction'] as const;

/** Limits of a read: a daemon that asks for more is stopped, not the server. */
const READ_SECONDS_MAX = 60;
const READ_BYTES_MAX = 4_000_000_000;

export type PasswordHashes = ReadonlyMap<Account, string>;

export function passwordHash(password: string): string {
  return createHash('sha256').update(password).digest('hex');
}

/** Statements for newer servers. They may be repeated: a changed password takes effect. */
export function accountStatements(database: string, hashes: PasswordHashes): Sql[] {
  const name = identifier(database);
  const all = sql`${name}.*`;
  const table = (own: string): Sql => sql`${name}.${identifier(own)}`;
  const users = ACCOUNTS.flatMap((account) => {
    const identified = sql`IDENTIFIED WITH sha256_hash BY ${word(hashes.get(account)!)}`;
    return [
      sql`CREATE USER IF NOT EXISTS ${identifier(account)} ${identified}`,
      sql`ALTER USER ${identifier(account)} ${identified}`,
    ];
  });
  const limits = list([
    sql`readonly = 1`,
    sql`max_execution_time = ${READ_SECONDS_MAX}`,
    sql`max_memory_usage = ${READ_BYTES_MAX}`,
    sql`cancel_http_readonly_queries_on_client_close = 1`,
  ]);
  const [ship, read, pin, admin] = ACCOUNTS.map(identifier) as [Sql, Sql, Sql, Sql];
  return [
    ...users,
    sql`CREATE SETTINGS PROFILE IF NOT EXISTS ${read} SETTINGS ${limits}`,
    sql`ALTER USER ${read} SETTINGS PROFILE 'kr_read'`,
    ...SHIPPED.map((own) => sql`GRANT INSERT ON ${table(own)} TO ${ship}`),
    ...['meta', 'node'].map((own) => sql`GRANT SELECT ON ${table(own)} TO ${ship}`),
    sql`GRANT SELECT ON ${all} TO ${list([read, pin])}`,
    ...['parts', 'disks'].map((own) => sql`GRANT SELECT ON system.${identifier(own)} TO ${list([read, admin])}`),
    ...PINNED.map((own) => sql`GRANT INSERT, ALTER DELETE ON ${table(own)} TO ${pin}`),
    sql`GRANT SELECT, CREATE DATABASE, CREATE TABLE, ALTER COLUMN, ALTER DELETE ON ${all} TO ${admin}`,
    sql`GRANT INSERT ON ${table('meta')} TO ${admin}`,
  ];
}

/** What an operator puts into the folder users.d of a server of 18.16, which knows rights by database only. */
export function accountsFile(database: string, hashes: PasswordHashes): string {
  const users = ACCOUNTS.map(
    (account) => `    <${account}>
      <password_sha256_hex>${hashes.get(account)}</password_sha256_hex>
      <networks><ip>::/0</ip></networks>
      <profile>${account === 'kr_read' ? 'kr_read' : 'default'}</profile>
      <quota>default</quota>
      <allow_databases><database>${database}</database></allow_databases>
    </${account}>`,
  );
  return `<yandex>
  <profiles>
    <kr_read>
      <readonly>1</readonly>
      <max_execution_time>${READ_SECONDS_MAX}</max_execution_time>
      <max_memory_usage>${READ_BYTES_MAX}</max_memory_usage>
    </kr_read>
  </profiles>
  <users>
${users.join('\n')}
  </users>
</yandex>
`;
}
