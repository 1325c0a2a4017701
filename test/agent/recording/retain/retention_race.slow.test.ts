/**
 * Tests retention between the parts of an answer: rows keep their names or are gone, and never get another event's
 * names.
 */
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { openWriter } from '../../../../agent/recording/write/writer.ts';
import { blockOf, type Row, rowsOf, START_NS, temporaryFolder } from '../fixture.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const SECOND_NS = 1_000_000_000n;
const ROWS = 3000;

test('events that were scanned before retention removed them keep their owners', () => {
  const path = join(folder.path, 'recording.kreplay');
  const clock = { nowNs: START_NS };
  const retention = { ageNs: 20n * SECOND_NS };
  const writer = openWriter({ path, node: 'n', bootId: 'b', machineId: 'm', nowNs: () => clock.nowNs, retention });
  let second = 0;
  // Adds as many new names as retention needs to forget the old ones.
  const writeSecond = () => {
    const rows = Array.from({ length: ROWS }, (_, i): Row => {
      const unique = `${second}-${i}`;
      return {
        timestamp_ns: clock.nowNs + BigInt(i),
        pid: i,
        tid: second,
        context: writer.contextId({ transactionId: unique, traceId: null, spanId: null }),
        comm: writer.nameId(unique),
        'sys_write.file': writer.fileId(unique, 'regular'),
      };
    });
    second++;
    writer.append(blockOf(rows));
    clock.nowNs += SECOND_NS;
    writer.flush();
  };
  for (let i = 0; i < 10; i++) writeSecond();
  const reader = openReader(path);
  const scan = reader.scan({ blockRowsMax: 500 });
  const others: unknown[] = [];
  let seen = 0;
  for (let block = scan.next(); !block.done; block = scan.next()) {
    // Retention runs after the block is made and before its names are read.
    if (seen === 0) for (let i = 0; i < 30; i++) writeSecond();
    for (const row of rowsOf(block.value)) {
      const unique = `${row.tid}-${row.pid}`;
      const texts = [
        reader.context(row.context as number).transactionId,
        reader.name(row.comm as number),
        reader.file(row['sys_write.file'] as number)?.path,
      ];
      if (texts.some((text) => text !== unique)) others.push({ unique, texts });
      seen++;
    }
  }
  expect(others.slice(0, 3)).toEqual([]);
  const database = new Database(path, { readonly: true });
  const names = database.prepare('SELECT text FROM name').pluck().all();
  database.close();
  // Names of the first events are gone from the file.
  expect([names.includes('0-0'), names.includes(`${second - 1}-0`)]).toEqual([false, true]);
  expect(seen).toBeGreaterThanOrEqual(500);
  expect(seen).toBeLessThan(10 * ROWS);
  reader.close();
  writer.close();
});
