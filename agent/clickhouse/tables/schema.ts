/** The tables of a fleet: columns, keys and partitions. The statements for each server version are built from them. */
import { type NativeType, parseType } from '../native/types.ts';
import { identifier, type Sql, sql } from '../statements/sql.ts';
import { EVENT_COLUMNS, type EventColumn } from './event_columns.ts';

/** Version of the tables. It increases with each change except new columns, which `fleet upgrade` adds. */
export const SCHEMA_VERSION = 1;

/** Value of `owner` if several services own an event or parts of it. */
export const SEVERAL_OWNERS = '*';

/** Values of `kind` in the table `by_id`. */
export const TRANSACTION_ID = 1;
export const TRACE_ID = 2;

export interface TableColumn {
  readonly name: string;
  readonly type: NativeType;
  /**
   * The expression that computes the column, and when the server computes it: always (MATERIALIZED), or if an insert
   * omits the column (DEFAULT).
   */
  readonly computed?: { readonly when: 'MATERIALIZED' | 'DEFAULT'; readonly value: Sql } | undefined;
  /** Whether adjacent rows have close values, so that the Delta codec shrinks them. */
  readonly isDelta?: boolean;
}

export interface FleetTable {
  readonly name: string;
  readonly columns: readonly TableColumn[];
  /** Columns that identify a row. ClickHouse merges rows with equal values in these columns into one row. */
  readonly key: readonly string[];
  /**
   * The column that selects one of the rows with equal keys: the row with its largest value is kept. Without this
   * column, the last row is kept.
   */
  readonly versionColumn?: string;
  /** The part of the key that is in memory, if it is not the whole key. */
  readonly keyInMemory?: readonly string[];
  readonly partition?: Sql;
  readonly rowsPerMark?: number;
  /** Indexes; only newer servers have them. */
  readonly indexes?: readonly { readonly column: string; readonly kind: Sql; readonly granularity: number }[];
}

export const BUCKET_NS_DEFAULT = 60_000_000_000n;
const HOUR_NS = 3_600_000_000_000n;
const DAY_NS = 24n * HOUR_NS;

function column(name: string, type: string, more: Partial<TableColumn> = {}): TableColumn {
  return { name, type: parseType(type), ...more };
}

/** Parses several columns, written as lines of `name type`. */
function columns(lines: string): TableColumn[] {
  return lines.split('\n').flatMap((line) => {
    const [name, type] = line.trim().split(' ');
    return name && type ? [column(name, type)] : [];
  });
}

const buildHourSql = (name: string): Sql => sql`intDiv(${identifier(name)}, ${HOUR_NS})`;
const buildDaySql = (name: string): Sql => sql`intDiv(${identifier(name)}, ${DAY_NS})`;
const delta = (own: TableColumn): TableColumn => ({ ...own, isDelta: true });

function buildEventTable(bucketNs: bigint): FleetTable {
  const bucket = sql`toUInt32(intDiv(timestamp_ns, ${bucketNs}))`;
  const fromRecording = EVENT_COLUMNS.map(({ name, type, source }: EventColumn) =>
    source.encoding === 'delta' ? { name, type, isDelta: true } : { name, type },
  );
  return {
    name: 'event',
    columns: [
      delta(column('bucket', 'UInt32', { computed: { when: 'MATERIALIZED', value: bucket } })),
      column('recording', 'UInt64'),
      delta(column('number', 'UInt64')),
      // The only service that owns the event or a part of it; '' if there is none, '*' if there are several.
      column('owner', 'LowCardinality(String)'),
      column('node', 'LowCardinality(String)'),
      ...fromRecording,
    ],
    key: ['bucket', 'owner', 'timestamp_ns', 'recording', 'number'],
    keyInMemory: ['bucket', 'owner', 'timestamp_ns'],
    partition: buildHourSql('timestamp_ns'),
    rowsPerMark: 2048,
    indexes: [{ column: 'duration_ns', kind: sql`minmax`, granularity: 1 }],
  };
}

/** Columns for a segment's summary of a transaction or trace, as in the recording's own summaries. */
const SUMMARY = columns(`
  node LowCardinality(String)
  services Array(String)
  t_min UInt64
  t_max UInt64
  end_max UInt64
  n UInt64
  errors UInt64
  slowest_duration_ns UInt64
  slowest_number UInt64
  last_number UInt64
  written_back_count UInt64
  written_back_bytes UInt64
  written_back_end_ns UInt64
  trace_id FixedString(16)
  own_min UInt64`);

const BY_ID: FleetTable = {
  name: 'by_id',
  columns: [
    // `kind` is 1 for a transaction, 2 for a trace. The id of a trace is stored as hexadecimal digits.
    ...columns(`kind UInt8
      id String
      day UInt32
      recording UInt64
      first_number UInt64
      owners Array(String)`),
    ...SUMMARY,
  ],
  key: ['kind', 'id', 'day', 'recording', 'first_number'],
  // A lookup reads every partition, so partitions are large: a whole day each.
  partition: sql`day`,
  indexes: [{ column: 'id', kind: sql`bloom_filter`, granularity: 1 }],
};

const TRANSACTION: FleetTable = {
  name: 'transaction',
  columns: [
    ...columns(`service LowCardinality(String)
      id String
      text_hash UInt64
      recording UInt64
      first_number UInt64`),
    ...SUMMARY,
  ],
  key: ['service', 't_min', 'id', 'recording', 'first_number'],
  partition: buildHourSql('t_min'),
};

const STAT: FleetTable = {
  name: 'stat',
  columns: columns(`minute UInt32
    owner LowCardinality(String)
    service LowCardinality(String)
    node LowCardinality(String)
    event_type LowCardinality(String)
    recording UInt64
    first_number UInt64
    n UInt64
    errors UInt64
    bytes_low UInt64
    bytes_high UInt64
    duration_low UInt64
    duration_high UInt64
    duration_max UInt64
    slots Array(UInt16)
    counts Array(UInt32)`),
  key: ['minute', 'owner', 'service', 'node', 'event_type', 'recording', 'first_number'],
  partition: sql`intDiv(minute, 60)`,
};

const ARRIVED = column('arrived', 'DateTime', { computed: { when: 'DEFAULT', value: sql`now()` } });

/** The small tables that are shipped together with segments. */
const BESIDE: readonly FleetTable[] = [
  {
    name: 'name',
    columns: columns(`hour UInt32
      kind LowCardinality(String)
      text String`),
    key: ['hour', 'kind', 'text'],
    partition: sql`hour`,
  },
  {
    name: 'loss',
    columns: [
      ...columns(`recording UInt64
        loss_id UInt64
        node LowCardinality(String)
        cause LowCardinality(String)
        event_type LowCardinality(String)
        count UInt64
        from_ns UInt64
        to_ns UInt64
        scope String
        sums String`),
      ARRIVED,
    ],
    key: ['recording', 'loss_id'],
    // A loss only grows, and an older row may arrive again. So the row with the largest count is the current one.
    versionColumn: 'count',
    // The loss's start determines the partition. A loss grows at its end, so its newer rows stay in the partition of
    // its first row. Losses of whole nodes have recording 0, and stay when days are dropped.
    partition: sql`if(recording = 0, 0, ${buildDaySql('from_ns')})`,
  },
  {
    name: 'clock',
    columns: columns(`recording UInt64
      clock_id UInt64
      node LowCardinality(String)
      boot_ns UInt64
      offset_ns Int64
      kind LowCardinality(String)
      suspended_ns UInt64`),
    key: ['recording', 'clock_id'],
  },
  {
    name: 'node',
    columns: columns(`recording UInt64
      at UInt64
      node LowCardinality(String)
      machine String
      claim String
      created_ns UInt64
      alive_ns UInt64
      ended_ns UInt64
      shipped_number UInt64
      watermark_ns UInt64
      backlog UInt64
      clock_offset_ns Int64
      clock_uncertainty_ns UInt64
      in_progress String`),
    key: ['recording'],
    versionColumn: 'at',
  },
  {
    name: 'segment',
    columns: [
      ...columns(`recording UInt64
        first_number UInt64
        end_number UInt64
        node LowCardinality(String)
        n UInt64
        t_min UInt64
        t_max UInt64
        end_max UInt64`),
      ARRIVED,
      column('seniority', 'UInt32', { computed: { when: 'DEFAULT', value: sql`4294967295 - toUInt32(now())` } }),
    ],
    key: ['recording', 'first_number'],
    // A segment that is sent again keeps its first arrival time: `seniority` decreases with time.
    versionColumn: 'seniority',
    indexes: [{ column: 'arrived', kind: sql`minmax`, granularity: 1 }],
    partition: buildHourSql('t_min'),
  },
];

const META: FleetTable = {
  name: 'meta',
  columns: columns(`key String
    at UInt64
    value String`),
  key: ['key'],
  versionColumn: 'at',
};

const PIN: FleetTable = {
  name: 'pin',
  // A pin keeps all events from `from_ns` to `start_ns`, where the transaction starts, and from then on the
  // transaction's own events up to `end_ns`.
  columns: columns(`pin UInt64
    transaction_id String
    nodes Array(String)
    from_ns UInt64
    start_ns UInt64
    end_ns UInt64
    pinned_ns UInt64`),
  key: ['pin'],
  partition: sql`pin`,
};

/** Builds a table of pinned rows. Each pin has its own partition, which unpinning drops. */
function buildPinnedTable(table: FleetTable): FleetTable {
  return {
    ...table,
    name: `pinned_${table.name}`,
    columns: [column('pin', 'UInt64'), ...table.columns],
    partition: sql`pin`,
  };
}

export function buildTables(bucketNs: bigint): readonly FleetTable[] {
  const event = buildEventTable(bucketNs);
  return [
    META,
    event,
    BY_ID,
    TRANSACTION,
    STAT,
    ...BESIDE,
    PIN,
    buildPinnedTable(event),
    buildPinnedTable(BY_ID),
    buildPinnedTable(TRANSACTION),
  ];
}
