/** Tests the names of inserts: a newer server drops rows whose insert has the name of an earlier one. */
import type { Connection } from '../../agent/clickhouse/connection/connection.ts';
import { parseServerVersion } from '../../agent/clickhouse/tables/server_version.ts';
import { openReader } from '../../agent/recording/read/reader.ts';
import { createPosition, rewindPosition, type ShippingPosition } from '../../agent/ship/position.ts';
import { createSender, sendSide } from '../../agent/ship/send_group.ts';
import { newFolder, newWriter, recordingPath, START } from '../daemon/recorded.ts';

/** Sends losses and clock steps where a newer server would be, and returns the names of the inserts. */
async function namesOf(folder: string, position: ShippingPosition, missing = 0): Promise<string[]> {
  const names: string[] = [];
  const connection: Connection = {
    database: 'kreplay',
    run: async () => {},
    async *select() {},
    insert: async (_, __, { settings } = {}) => void names.push(String(settings?.insert_deduplication_token)),
    close: () => {},
  };
  const reader = openReader(recordingPath(folder));
  const send = createSender(
    { connection, version: parseServerVersion('26.7.1') },
    'notes',
    new AbortController().signal,
  );
  const lost =
    missing > 0 ? [{ from: 0, count: missing, fromNs: START, toNs: START, cause: 'unshipped' as const }] : [];
  await sendSide(send, reader, position, lost);
  reader.close();
  return names;
}

function note(folder: string): void {
  const writer = newWriter(folder);
  writer.recordLoss({ fromNs: START, toNs: START + 1n, cause: 'ring_full', eventType: null, count: 1 });
  writer.recordClock({ bootNs: 1n, offsetNs: 1n, kind: 'step', suspendedNs: 0n });
  writer.close();
}

test('equal rows have equal names, and others have others', async () => {
  const folder = newFolder();
  note(folder);
  const position = createPosition('0'.repeat(16), 'node');
  const first = await namesOf(folder, position);
  expect(first).toHaveLength(2);
  expect(await namesOf(folder, position)).toEqual(first);
  const [more] = await namesOf(folder, position, 5);
  const [stillMore] = await namesOf(folder, position, 6);
  note(folder);
  const later = await namesOf(folder, position);
  const rest = await namesOf(folder, { ...position, lossId: 1, clockId: 1 });
  const all = [...first, more, stillMore, ...later, ...rest];
  expect(new Set(all).size).toBe(all.length);
});

test('what is sent again to a server that was restarted has another name', () => {
  const position = createPosition('0'.repeat(16), 'node');
  expect(rewindPosition(position, 1).round).toBe(1);
});

test('everything that was acknowledged in the last minutes is sent again to a server that was restarted', () => {
  const acknowledged = [3, 5, 8].map((number, at) => ({ number, atMs: 1_000_000_000 + at * 10_000 }));
  const position = { ...createPosition('0'.repeat(16), 'node'), number: 13, settled: 13, acknowledged };
  expect(rewindPosition(position, 1_000_000_000 + 30_000)).toMatchObject({ number: 3, settled: 13, acknowledged: [] });
  expect(rewindPosition({ ...position, acknowledged: [] }, 1_000_030_000)).toMatchObject({ number: 13 });
});
