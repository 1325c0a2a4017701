/** Tests that every command refuses a copy that SQLite itself made, and says how to make one that can be read. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { kreplay } from '../command_line.ts';
import { newFolder, recorded, recordingPath, START } from '../recorded.ts';

const rows = Array.from({ length: 5000 }, (_, i) => ({ at: START + BigInt(i) * 1000n, transaction: 'order-1' }));
const folder = newFolder();
const COPIES = { backup: join(folder, 'backup.kreplay'), vacuum: join(folder, 'vacuum.kreplay') };
/** A file of the same tables without room for checksums, as `.dump` and `.recover` make it. */
const dumped = join(folder, 'dumped.kreplay');

beforeAll(() => {
  const original = recordingPath(recorded(rows));
  const sqlite = (file: string, input: string) => execFileSync('sqlite3', [file], { input, encoding: 'utf8' });
  sqlite(original, `.backup ${COPIES.backup}\n`);
  sqlite(original, `VACUUM INTO '${COPIES.vacuum}';`);
  sqlite(
    dumped,
    sqlite(original, '.dump') +
      sqlite(
        original,
        "SELECT 'PRAGMA application_id = ' || application_id || ';' FROM pragma_application_id; SELECT 'PRAGMA user_version = ' || user_version || ';' FROM pragma_user_version;",
      ),
  );
});

const commands = (file: string): Record<string, string[]> => ({
  verify: ['verify', file],
  events: ['events', '--recording', file],
  transactions: ['transactions', '--recording', file],
  show: ['show', 'order-1', '--recording', file],
  stats: ['stats', '--recording', file],
  services: ['services', '--recording', file],
  whatif: ['whatif', 'order-1', '--extra-latency', '1ms', '--recording', file],
  sql: ['sql', 'select count(*) from events', '--recording', file],
  export: ['export', '--transaction', 'order-1', '--recording', file, '--output', join(folder, 'exported.kreplay')],
  import: ['import', file, '--data', join(folder, 'data')],
  run: ['run', '--bundle', file, '--transaction', 'order-1', '--', 'true'],
  daemon: ['daemon', '--recording', file, '--listen', `unix:${join(folder, 'daemon.socket')}`],
});

describe.each([...Object.entries(COPIES), ['dump', dumped]])('a copy by SQLite: %s', (_, file) => {
  test.each(Object.keys(commands('')))('kreplay %s names the right way to copy', async (name) => {
    const { code, stdout, stderr } = await kreplay(...commands(file)[name]!);
    expect([name, code]).toEqual([name, expect.not.stringMatching(/^0$/)]);
    const told = `${stdout}${stderr}`;
    expect(told).toContain(file);
    expect(told).toContain('.backup, VACUUM INTO');
    expect(told).toContain('kreplay export --from 2020-01-01T00:00:00Z --output copy.kreplay');
  });
});
