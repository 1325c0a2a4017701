/** Tests the statements that make tables: a new column appears by itself, and each version gets what it knows. */

import { formatTypeName } from '../../../../agent/clickhouse/native/types.ts';
import { addColumn, createTable, type TablePlace } from '../../../../agent/clickhouse/tables/ddl.ts';
import { buildEventColumns, EVENT_COLUMNS, toSqlName } from '../../../../agent/clickhouse/tables/event_columns.ts';
import { BUCKET_NS_DEFAULT, buildTables } from '../../../../agent/clickhouse/tables/schema.ts';
import {
  chooseInsertCompression,
  chooseInsertSettings,
  parseServerVersion,
} from '../../../../agent/clickhouse/tables/server_version.ts';
import { COLUMNS, type Column } from '../../../../bpf/schema/columns.ts';

const TABLES = buildTables(BUCKET_NS_DEFAULT);
const DEBIAN = parseServerVersion('18.16.1');
const CURRENT = parseServerVersion('24.8.4.13');

function statements(place: Partial<TablePlace>): string {
  const whole = { database: 'kreplay', version: DEBIAN, ...place };
  return TABLES.flatMap((table) => createTable(whole, table).map(({ text }) => text)).join(';\n');
}

describe('columns of events', () => {
  test('hold each column of a recording, as what it refers to', () => {
    const parts = new Map(EVENT_COLUMNS.map(({ name, type, part }) => [name, `${part} ${formatTypeName(type)}`]));
    expect(Object.fromEntries(parts)).toMatchObject({
      event_type: 'event_type LowCardinality(String)',
      timestamp_ns: 'number UInt64',
      result: 'number Int64',
      service: 'service LowCardinality(String)',
      transaction_id: 'transaction String',
      trace_id: 'trace FixedString(16)',
      context_quality: 'number UInt8',
      sys_write_file: 'path String',
      sys_write_file_kind: 'file_kind LowCardinality(String)',
      sys_write_fd: 'number Int32',
      sys_write_syscall: 'label LowCardinality(String)',
      block_io_device: 'text LowCardinality(String)',
      origin_bytes: 'origin_bytes Array(UInt64)',
    });
    for (const column of COLUMNS)
      expect(EVENT_COLUMNS.some(({ source }) => source === column || source.field === column.field)).toBe(true);
  });

  test('have names that SQL takes, each once', () => {
    const names = TABLES.find(({ name }) => name === 'event')!.columns.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => !/^[a-z_]+$/.test(name))).toEqual([]);
  });

  test('of a new event type follow from its entry', () => {
    const base = { encoding: 'plain', eventType: 99, slot: 0 } as const;
    const more: Column[] = [
      { ...base, name: 'dns_query.server', storage: 'u32', source: 'value', field: 'server' },
      { ...base, name: 'dns_query.host', storage: 'u32', source: 'text', field: 'host' },
    ];
    const added = buildEventColumns([...COLUMNS, ...more]).slice(EVENT_COLUMNS.length);
    expect(added.map(({ name, type }) => `${name} ${formatTypeName(type)}`)).toEqual([
      'dns_query_server UInt32',
      'dns_query_host LowCardinality(String)',
    ]);
    expect(toSqlName(more[0]!.name)).toBe('dns_query_server');
  });
});

describe('statements', () => {
  test('for 18.16 have nothing that it does not know', () => {
    expect(statements({ storagePolicy: 's3' })).not.toMatch(
      /CODEC|INDEX |TTL|fsync|storage_policy|Replicated|Distributed/,
    );
  });

  test('for newer servers have codecs, indexes, and wait for the disk', () => {
    const text = statements({ version: CURRENT, storagePolicy: 's3' });
    expect(text).toContain('`timestamp_ns` UInt64 CODEC(Delta, ZSTD(1))');
    expect(text).toContain('`pid` UInt32 CODEC(T64, ZSTD(1))');
    expect(text).toContain('INDEX `by_duration_ns` `duration_ns` TYPE minmax GRANULARITY 1');
    expect(text).toContain("fsync_after_insert = 1, fsync_part_directory = 1, storage_policy = 's3'");
  });

  test('add a column only where it is missing, as far as the server can', () => {
    const [table] = TABLES;
    const add = (version: TablePlace['version']) =>
      addColumn({ database: 'kreplay', version }, table!.name, table!.columns[0]!).text;
    expect(add(CURRENT)).toBe('ALTER TABLE `kreplay`.`meta` ADD COLUMN IF NOT EXISTS `key` String');
    expect(add(DEBIAN)).toBe('ALTER TABLE `kreplay`.`meta` ADD COLUMN `key` String');
  });

  test('in a cluster make replicated tables, and one over all shards for each', () => {
    const text = statements({ cluster: 'main', version: CURRENT });
    expect(text).toContain(
      "ReplicatedReplacingMergeTree('/clickhouse/kreplay/{shard}/kreplay/node', '{replica}', `at`)",
    );
    expect(text.match(/_all` .* ENGINE = Distributed\(`main`, `kreplay`, /g)).toHaveLength(TABLES.length);
  });

  test.each(['a b', "x'", 'x`', ''])('are not made with the name %j', (name) => {
    expect(() => statements({ database: name })).toThrow(/cannot be a name/);
    expect(() => statements({ cluster: name })).toThrow(/cannot be a name/);
    expect(() => statements({ version: CURRENT, storagePolicy: name })).toThrow(/has characters that a word has not/);
  });
});

describe('a version of the server', () => {
  test.each([
    ['18.16.1', false],
    ['23.8.1.2992', false],
    ['24.8.4.13', true],
    ['26.7.2.1', true],
    ['', false],
  ])('%j is supported for use: %s', (text, isCurrent) => {
    expect(parseServerVersion(text)).toEqual({ text, isCurrent });
  });

  test('gets only the settings and the packing that it knows', () => {
    expect(chooseInsertSettings(DEBIAN, { token: 't' })).toEqual({});
    expect(chooseInsertSettings(DEBIAN, { token: 't', quorum: 2 })).toEqual({ insert_quorum: 2 });
    expect(chooseInsertSettings(CURRENT, { token: 't' })).toEqual({ async_insert: 0, insert_deduplication_token: 't' });
    expect([DEBIAN, CURRENT].map(chooseInsertCompression)).toEqual(['gzip', 'zstd']);
  });
});
