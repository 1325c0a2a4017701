/** Bundles are made by strangers: what no kreplay makes is refused at once, in words, by every command that reads it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { PAGE_BYTES } from '../../agent/recording/format.ts';
import { kreplay } from '../daemon/command_line.ts';
import { newFolder, recorded, recordingPath, START } from '../daemon/recorded.ts';
import { changeWith, readWith } from './exported.ts';

const REFUSED = /^kreplay: .*(no kreplay makes|is damaged|any recording has)/;
const REFUSED_MS_MAX = 10_000;

const TEXT = 'hex(zeroblob(1000000))';

const HOSTILE: Record<string, string> = {
  'a generated column': `DROP INDEX name_by_text; DROP TABLE name;
    CREATE TABLE name (name_id INTEGER PRIMARY KEY, text TEXT AS (hex(zeroblob(200000000))))`,
  'an index of an expression': 'CREATE INDEX evil ON name (hex(text))',
  'a partial index': "CREATE INDEX evil ON name (text) WHERE text > 'a'",
  'another index by a known name': `DROP INDEX segment_by_start;
    CREATE INDEX segment_by_start ON segment (min_timestamp_ns) WHERE sealed = 2`,
  'a table with a rowid that should have none':
    'DROP TABLE service; CREATE TABLE service (name_id INTEGER PRIMARY KEY)',
  'a trigger': 'CREATE TRIGGER evil AFTER INSERT ON pin BEGIN DELETE FROM segment; END',
  'a long name': `UPDATE name SET text = ${TEXT}`,
  'a long list of services': 'UPDATE transaction_summary SET services = zeroblob(10000000)',
  'a long cause': `UPDATE loss SET cause = ${TEXT}`,
  'no time of its beginning': "UPDATE meta SET value = 'zzz' WHERE key = 'created_ns'",
  'events before time': 'UPDATE segment SET min_timestamp_ns = -9223372036854775808',
  'a number that no event has': 'UPDATE segment SET first_number = 4611686018427387904',
  'more events than any segment has': 'UPDATE segment SET event_count = 9007199254740993',
  'an end that no recording has': "UPDATE meta SET value = 9223372036854775807 WHERE key = 'next_number'",
  'negative losses': 'UPDATE loss SET count = -1',
};

test.each(Object.keys(HOSTILE))('%s', async (name) => {
  const loss = { cause: 'ring_full', eventType: null, count: 3, fromNs: START, toNs: START + 5n } as const;
  const rows = Array.from({ length: 50 }, (_, i) => ({ at: START + BigInt(i), transaction: `order-${i % 3}` }));
  const path = recordingPath(recorded(rows, (writer) => writer.recordLoss(loss)));
  changeWith(path, HOSTILE[name]!);
  const startMs = performance.now();
  const imported = await kreplay('import', path, '--data', newFolder());
  expect(performance.now() - startMs).toBeLessThan(REFUSED_MS_MAX);
  expect(imported).toMatchObject({ code: 1, stderr: expect.stringMatching(REFUSED) });
  expect(imported.stderr).not.toMatch(/\n\s+at /);
  const verified = await kreplay('verify', path);
  expect(verified).toMatchObject({ code: 1, stdout: expect.stringMatching(/: (damaged|can not be read)/) });
  expect(verified.stderr).toBe('');
});

test('a flipped bit is found, and where it is', async () => {
  const path = recordingPath(recorded([{ at: START, transaction: 'order-1' }]));
  expect(await kreplay('verify', path)).toMatchObject({
    code: 0,
    stdout: expect.stringContaining(': whole: 1 events'),
  });
  const page = Number(
    readWith('sqlite3', ['-readonly', path, "SELECT rootpage FROM sqlite_schema WHERE name = 'pin'"]),
  );
  const bytes = readFileSync(path);
  bytes[(page - 1) * PAGE_BYTES + 100]! ^= 4;
  writeFileSync(path, bytes);
  const { code, stdout } = await kreplay('verify', path, '--output', 'json');
  expect(code).toBe(1);
  const damaged = { state: 'damaged', events: 1, damaged_pages: [page], damaged_parts: ['pin'] };
  expect(JSON.parse(stdout).recordings[0]).toMatchObject(damaged);
});
