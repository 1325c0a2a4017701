/** Finds the servers of a fleet by shard, and the space on their disks. */
import { type Connection, connect } from '../../clickhouse/connection/connection.ts';
import { type RowOf, readSingleRow, readTypedRows } from '../../clickhouse/connection/rows.ts';
import { ServerError } from '../../clickhouse/connection/server_error.ts';
import type { ConnectionSettings } from '../../clickhouse/connection/settings.ts';
import { sql, text } from '../../clickhouse/statements/sql.ts';
import { type Meta, readMeta } from '../../clickhouse/tables/meta.ts';
import { SCHEMA_VERSION } from '../../clickhouse/tables/schema.ts';
import { readServerVersion } from '../../clickhouse/tables/server_version.ts';
import { formatCount } from '../../output/amounts.ts';
import { UserError } from '../../process/errors.ts';
import { parsePartitionNumber } from './partitions.ts';
import type { DiskSpace } from './plan.ts';

export interface Shard {
  /** Addresses of the shard's servers, for messages. */
  urls: string[];
  connection: Connection;
  meta: Meta;
}

export interface FoundServers {
  shards: Shard[];
  /** The disks of all servers; undefined if the version of a server does not report disks. */
  disks: DiskSpace[] | undefined;
  /** Version of the first server that does not report disks, or of the first server if all of them report disks. */
  version: string;
  close(): void;
}

interface Server {
  url: string;
  /** Identifies the shard; equal for all replicas of the shard. */
  shard: string;
  shardCount: bigint;
  meta: Meta;
  version: string;
  disks: DiskSpace[] | undefined;
}

/** Maximum difference between clocks. With a larger difference, retention could drop hours that should be kept. */
const CLOCKS_APART_MS_MAX = 3_600_000;
/** Maximum time that a server may take to answer. */
const TIMEOUT_MS = 60_000;

/** Asks all servers and groups them by shard. Throws a UserError. */
export async function findServers(settings: readonly ConnectionSettings[]): Promise<FoundServers> {
  const servers: Server[] = [];
  const away: ServerError[] = [];
  for (const one of settings) {
    try {
      servers.push(await askServer(one));
    } catch (error) {
      if (!(error instanceof ServerError) || error.code !== 'unreachable') throw error;
      away.push(error);
    }
  }
  const byShard = Map.groupBy(servers, ({ shard }) => shard);
  refuseMissing(servers, byShard.size, away);
  const shards = [...byShard.values()].map((own): Shard => {
    const urls = own.map(({ url }) => url);
    return { urls, connection: connect({ ...settings[0]!, urls }), meta: own[0]!.meta };
  });
  return {
    shards,
    disks: servers.every(({ disks }) => disks) ? servers.flatMap(({ disks }) => disks!) : undefined,
    version: servers.find(({ disks }) => !disks)?.version ?? servers[0]!.version,
    close: () => shards.forEach(({ connection }) => void connection.close()),
  };
}

/**
 * Throws if a shard is missing, because hours are dropped from all shards at once. Some replicas of a shard may be
 * unreachable: they drop the hours when they are back.
 */
function refuseMissing(servers: readonly Server[], shardCount: number, away: readonly ServerError[]): void {
  const [first] = servers;
  if (!first || (first.meta.cluster === undefined && away.length > 0)) throw away[0];
  if (first.meta.cluster === undefined || BigInt(shardCount) >= first.shardCount) return;
  const reason = away.length > 0 ? `: ${away[0]!.message}` : ': name a server of each with --url';
  throw new UserError(
    `only ${shardCount} of ${formatCount(first.shardCount, 'shard')} of the cluster can be reached${reason}`,
  );
}

async function askServer(settings: ConnectionSettings): Promise<Server> {
  const [url] = settings.urls;
  const { database } = settings;
  const version = await readServerVersion(settings);
  const connection = connect(settings);
  try {
    const meta = await readMeta(connection);
    if (!meta)
      throw new UserError(`${url}: the database ${database} has no tables of kreplay: run \`kreplay fleet init\``);
    if (meta.schemaVersion !== SCHEMA_VERSION)
      throw new UserError(
        `${url}: the database ${database} has schema ${meta.schemaVersion}, this kreplay knows ${SCHEMA_VERSION}`,
      );
    await refuseOtherClock(connection, url!);
    const { cluster } = meta;
    const { shard, shardCount } =
      cluster === undefined ? { shard: url!, shardCount: 1n } : await readShardPlace(connection, cluster);
    const disks = version.isCurrent ? await readDiskSpaces(connection) : undefined;
    return { url: url!, shard, shardCount, meta, version: version.text, disks };
  } finally {
    connection.close();
  }
}

async function refuseOtherClock(connection: Connection, url: string): Promise<void> {
  const clock = sql`SELECT toUInt64(toUnixTimestamp(now())) AS seconds`;
  const seconds = Number(
    (await readSingleRow(connection, clock, { seconds: 'number' }, { timeoutMs: TIMEOUT_MS })).seconds,
  );
  if (Math.abs(seconds * 1000 - Date.now()) > CLOCKS_APART_MS_MAX)
    throw new UserError(`${url}: its clock and that of this host are more than an hour apart: set them right first`);
}

async function readShardPlace(connection: Connection, cluster: string): Promise<{ shard: string; shardCount: bigint }> {
  const paths = sql`SELECT zookeeper_path AS path FROM system.replicas
WHERE database = ${text(connection.database)} AND table = 'event'`;
  const count = sql`SELECT toUInt64(uniqExact(shard_num)) AS shards FROM system.clusters WHERE cluster = ${text(cluster)}`;
  const [own] = await readTypedRows(connection, paths, { path: 'text' });
  const { shards } = await readSingleRow(connection, count, { shards: 'number' });
  if (!own) throw new UserError(`the tables of ${connection.database} are not replicated everywhere`);
  return { shard: own.path, shardCount: shards };
}

/**
 * Returns the disks that have parts of the tables. The bytes of dropped parts count as free, because a server deletes
 * their files within minutes.
 */
async function readDiskSpaces(connection: Connection): Promise<DiskSpace[]> {
  const own = sql`database = ${text(connection.database)}`;
  const known = sql`SELECT name, free_space AS free, total_space AS total FROM system.disks`;
  const disks = await readTypedRows(connection, known, { name: 'text', free: 'number', total: 'number' });
  const parts = await readTypedRows(
    connection,
    sql`SELECT disk_name, active, partition, toUInt64(sum(bytes_on_disk)) AS size FROM system.parts
WHERE ${own} AND table IN ('event', 'transaction', 'stat', 'name', 'segment') GROUP BY disk_name, active, partition`,
    PARTS,
  );
  const byDisk = Map.groupBy(parts, ({ disk_name }) => disk_name);
  return disks.flatMap(({ name, free, total }) => {
    const found = byDisk.get(name);
    return found ? [sumDiskSpace(found, free, total)] : [];
  });
}

const PARTS = { disk_name: 'text', active: 'number', partition: 'text', size: 'number' } as const;

function sumDiskSpace(parts: readonly RowOf<typeof PARTS>[], freeBytes: bigint, totalBytes: bigint): DiskSpace {
  const bytesByHour = new Map<bigint, bigint>();
  let goingBytes = 0n;
  for (const { active, partition, size } of parts) {
    const hour = parsePartitionNumber(partition);
    if (active === 0n) goingBytes += size;
    else bytesByHour.set(hour, (bytesByHour.get(hour) ?? 0n) + size);
  }
  return { freeBytes: freeBytes + goingBytes, totalBytes, bytesByHour };
}
