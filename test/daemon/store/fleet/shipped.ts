/** Fills the tables of a fleet from recordings, segment by segment as a sender does. */
import { type Connection, connect } from '../../../../agent/clickhouse/connection/connection.ts';
import { newBlockEncoder } from '../../../../agent/clickhouse/native/encode.ts';
import { nameOf } from '../../../../agent/clickhouse/native/types.ts';
import { createTables } from '../../../../agent/clickhouse/tables/changes.ts';
import { BUCKET_NS_DEFAULT } from '../../../../agent/clickhouse/tables/schema.ts';
import { versionAt } from '../../../../agent/clickhouse/tables/server_version.ts';
import { openReader, type RecordingReader } from '../../../../agent/recording/read/reader.ts';
import { groupRows, tableNamed } from '../../../../agent/ship/rows/group_rows.ts';
import { sentColumns } from '../../../../agent/ship/rows/table_rows.ts';
import type { Fleet } from '../../../../daemon/store/fleet/fleet.ts';
import { columnOf, type Value } from '../../../clickhouse/columns.ts';
import type { ClickHouseServer } from '../../../clickhouse/server.ts';

type SentRow = Record<string, Value>;

/** Makes the tables in a database of their own. */
export async function newFleet({ url }: ClickHouseServer, database: string): Promise<Fleet> {
  const settings = { urls: [url], database };
  await createTables(settings, { database, version: await versionAt(settings) }, { nowNs: 1n });
  return { connection: connect(settings), bucketNs: BUCKET_NS_DEFAULT, isCluster: false };
}

export async function ship({ connection }: Fleet, path: string): Promise<void> {
  const reader = openReader(path);
  try {
    const segments: SentRow[] = [];
    const rows = groupRows(reader);
    for (const segment of reader.sealedSegments(0, 1000)) {
      const events = reader.sealedEvents(segment);
      if (events.kind !== 'events') throw new Error(`segment ${segment.firstNumber} is ${events.kind}`);
      rows.begin();
      const block = rows.add(events.block, segment.firstNumber, segment.typeMask);
      await connection.insert({ table: 'event', columns: rows.eventColumns(segment.typeMask) }, () => [block]);
      for (const { table, columns, blocks } of rows.beside()) await connection.insert({ table, columns }, () => blocks);
      segments.push({
        ...{ first_number: BigInt(segment.firstNumber), end_number: BigInt(segment.endNumber) },
        ...{ n: BigInt(segment.eventCount), t_min: segment.minNs, t_max: segment.maxNs },
      });
    }
    await shipBeside(connection, reader);
    await sendRows(
      connection,
      'segment',
      segments.map((segment) => ({ ...segment, ...originOf(reader) })),
    );
  } finally {
    reader.close();
  }
}

function originOf({ recordingId, node }: RecordingReader) {
  return { recording: BigInt(`0x${recordingId}`), node };
}

/** What does not come from events. */
async function shipBeside(connection: Connection, reader: RecordingReader): Promise<void> {
  const origin = originOf(reader);
  const losses = reader.losses().map(({ fromNs, toNs, cause, eventType, count }, i) => ({
    ...{ ...origin, loss_id: BigInt(i + 1), cause, event_type: eventType ?? '' },
    ...{ count: BigInt(count), from_ns: fromNs, to_ns: toNs },
  }));
  await sendRows(connection, 'loss', losses);
  const { fromNs, toNs } = reader.recordedSpan()!;
  const times = { created_ns: fromNs, alive_ns: toNs, watermark_ns: toNs, ended_ns: toNs };
  await sendRows(connection, 'node', [{ ...origin, at: toNs, ...times }]);
}

const EMPTY: Record<string, Value> = { integer: 0n, text: '', dictionary: '', list: [] };

/** What rows leave out is empty. */
export async function sendRows(connection: Connection, table: string, rows: readonly SentRow[]): Promise<void> {
  if (rows.length === 0) return;
  const columns = sentColumns(tableNamed(table).columns).map(({ name, type }) => {
    const empty = type.kind === 'fixed_text' ? '00'.repeat(type.bytes) : EMPTY[type.kind]!;
    return columnOf(
      name,
      nameOf(type),
      rows.map((row) => row[name] ?? empty),
    );
  });
  const block = newBlockEncoder().encode(columns, rows.length);
  await connection.insert({ table, columns: columns.map(({ name }) => name) }, () => [block]);
}
