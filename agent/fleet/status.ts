/** The state of a fleet's server: version, schema, tables, free disk space and nodes. */
import { type Connection, connect, QUESTION_MS } from '../clickhouse/connection/connection.ts';
import { type RowOf, readSingleRow, readTypedRows } from '../clickhouse/connection/rows.ts';
import type { ConnectionSettings } from '../clickhouse/connection/settings.ts';
import { sql, text } from '../clickhouse/statements/sql.ts';
import { readMeta, readServerColumns } from '../clickhouse/tables/meta.ts';
import { buildTables, SCHEMA_VERSION } from '../clickhouse/tables/schema.ts';
import { readServerVersion, toDefaultDatabase } from '../clickhouse/tables/server_version.ts';
import { formatBytes, formatCount } from '../output/amounts.ts';
import { escapeControls } from '../output/printable.ts';

export interface FleetStatus {
  url: string;
  version: string;
  /** Whether the version is supported for production use, and not only for trials. */
  supported: boolean;
  /** The state of the tables; null if there are none. */
  schema: { version: number; known_version: number; bucket_ns: bigint; missing: string[] } | null;
  tables: { name: string; rows: bigint; bytes: bigint; parts: bigint }[];
  /** The server's disks; null if its version does not report disks. */
  disks: { name: string; free_bytes: bigint; total_bytes: bigint }[] | null;
  /** Total number of nodes; `nodes` lists at most 10,000. */
  node_count: bigint;
  nodes: { node: string; recording: string; alive_ns: bigint; backlog: bigint }[];
}

const QUESTION = { timeoutMs: QUESTION_MS };
const NODES_MAX = 10_000;
const NODES_SHOWN = 20;

/** Asks a server for its state. Throws a UserError. */
export async function readFleetStatus(settings: ConnectionSettings): Promise<FleetStatus> {
  const outside = connect(toDefaultDatabase(settings));
  const connection = connect(settings);
  try {
    const version = await readServerVersion(settings);
    const meta = await readMeta(connection);
    // Uses the fleet's database if it exists, because an account may have no access to other databases.
    const asked = meta ? connection : outside;
    const found = meta ? await readServerColumns(connection, QUESTION) : new Map();
    const missing = buildTables(meta?.bucketNs ?? 1n).flatMap(({ name, columns }) => {
      const own = found.get(name);
      return own ? columns.filter((one) => !own.has(one.name)).map((one) => `${name}.${one.name}`) : [name];
    });
    return {
      url: settings.urls[0]!,
      version: version.text,
      supported: version.isCurrent,
      schema: meta
        ? { version: meta.schemaVersion, known_version: SCHEMA_VERSION, bucket_ns: meta.bucketNs, missing }
        : null,
      tables: meta ? await readTables(asked, settings.database) : [],
      // ClickHouse 18.16 has no system.disks.
      disks: version.isCurrent ? (await readTypedRows(asked, DISKS, DISK, QUESTION)).map(toDiskStatus) : null,
      ...(meta && found.has('node') ? await readNodes(connection) : { node_count: 0n, nodes: [] }),
    };
  } finally {
    outside.close();
    connection.close();
  }
}

const DISKS = sql`SELECT name, free_space AS free, total_space AS total FROM system.disks ORDER BY name`;
const DISK = { name: 'text', free: 'number', total: 'number' } as const;

function toDiskStatus({ name, free, total }: RowOf<typeof DISK>): NonNullable<FleetStatus['disks']>[number] {
  return { name, free_bytes: free, total_bytes: total };
}

const NODES = sql`SELECT recording, argMax(node, at) AS name, argMax(alive_ns, at) AS alive, argMax(backlog, at) AS waiting
  FROM node GROUP BY recording ORDER BY name, recording LIMIT ${NODES_MAX}`;
const NODE = { recording: 'number', name: 'text', alive: 'number', waiting: 'number' } as const;

const NODE_COUNT = sql`SELECT toUInt64(uniqExact(recording)) AS node_count FROM node`;

async function readNodes(connection: Connection): Promise<Pick<FleetStatus, 'node_count' | 'nodes'>> {
  const { node_count } = await readSingleRow(connection, NODE_COUNT, { node_count: 'number' }, QUESTION);
  return { node_count, nodes: (await readTypedRows(connection, NODES, NODE, QUESTION)).map(toNodeStatus) };
}

function toNodeStatus({ recording, name, alive, waiting }: RowOf<typeof NODE>): FleetStatus['nodes'][number] {
  const hex = recording.toString(16).padStart(16, '0');
  return { node: name, recording: hex, alive_ns: alive, backlog: waiting };
}

async function readTables(connection: Connection, database: string): Promise<FleetStatus['tables']> {
  const rows = await readTypedRows(
    connection,
    sql`SELECT table, toUInt64(sum(rows)) AS row_count, toUInt64(sum(bytes_on_disk)) AS size, toUInt64(count()) AS part_count
      FROM system.parts WHERE active AND database = ${text(database)} GROUP BY table`,
    { table: 'text', row_count: 'number', size: 'number', part_count: 'number' },
    QUESTION,
  );
  const byName = new Map(rows.map((row) => [row.table, row]));
  return buildTables(1n).map(({ name }) => {
    const { row_count: count = 0n, size = 0n, part_count: parts = 0n } = byName.get(name) ?? {};
    return { name, rows: count, bytes: size, parts };
  });
}

export function formatStatus({
  url,
  version,
  supported,
  schema,
  tables,
  disks,
  node_count: count,
  nodes,
}: FleetStatus): string {
  const lines = [`${url}: ClickHouse ${version}${supported ? '' : ', for trials only: use 24.8 or later'}`];
  if (!schema) return `${lines[0]}\nno tables: \`kreplay fleet init\` makes them\n`;
  const lacks = schema.missing.length > 0 ? `; \`kreplay fleet upgrade\` adds ${schema.missing.join(', ')}` : '';
  lines.push(`schema ${schema.version}, buckets of ${Number(schema.bucket_ns) / 1e9} s${lacks}`, '');
  lines.push(...alignColumns(['TABLE', 'ROWS', 'BYTES', 'PARTS'], tables.map(formatTableCells)), '');
  for (const disk of disks ?? [])
    lines.push(`disk ${disk.name}: ${formatByteCount(disk.free_bytes)} of ${formatByteCount(disk.total_bytes)} free`);
  if (!disks) lines.push('free disk: this version does not say');
  lines.push(formatCount(count, 'node'));
  lines.push(
    ...alignColumns(['NODE', 'ALIVE', 'BACKLOG'], nodes.slice(0, NODES_SHOWN).map(formatNodeCells)).slice(
      nodes.length ? 0 : 1,
    ),
  );
  const more = count - BigInt(NODES_SHOWN);
  const inJson = count > NODES_MAX ? `the first ${NODES_MAX}` : 'all';
  if (more > 0n) lines.push(`and ${more} more: --output json has ${inJson}`);
  return `${lines.join('\n')}\n`;
}

const formatByteCount = (count: bigint): string => formatBytes(Number(count));

function formatTableCells({ name, rows, bytes: size, parts }: FleetStatus['tables'][number]): string[] {
  return [name, String(rows), formatByteCount(size), String(parts)];
}

function formatNodeCells({ node, alive_ns, backlog }: FleetStatus['nodes'][number]): string[] {
  return [escapeControls(node), new Date(Number(alive_ns / 1_000_000n)).toISOString(), String(backlog)];
}

function alignColumns(headings: string[], rows: readonly string[][]): string[] {
  const all = [headings, ...rows];
  const widths = headings.map((_, i) => Math.max(...all.map((row) => row[i]!.length)));
  return all.map((row) =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  '),
  );
}
