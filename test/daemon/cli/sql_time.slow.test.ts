/** Tests `kreplay sql` with a query that never ends. */
import { kreplay } from '../command_line.ts';
import { recorded, START } from '../recorded.ts';

const ENDLESS = 'with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n';

test('an endless query is aborted with advice on how to allow more time', async () => {
  const folder = recorded([{ at: START, transaction: 'tx' }]);
  const began = performance.now();
  const { code, stdout, stderr } = await kreplay('sql', ENDLESS, '--data', folder, '--timeout', '500ms');
  expect([code === 0, stdout]).toEqual([false, '']);
  expect(stderr).toMatch(/no rows after 0\.5 s.*--timeout/);
  expect(performance.now() - began).toBeLessThan(20_000);
});

test('a query that finishes in time is answered', async () => {
  const folder = recorded([{ at: START, transaction: 'tx' }]);
  const { code, stdout } = await kreplay(
    'sql',
    'select count(*) as c from events',
    '--data',
    folder,
    '--timeout',
    '30s',
  );
  expect([code, stdout]).toEqual([0, '{"c":1}\n']);
});

test.each(['ndjson', 'csv'])('rows that were found before the abort are printed: %s', async (format) => {
  const folder = recorded([{ at: START, transaction: 'tx' }]);
  const query = 'with recursive n(i) as (select 1 union all select i + 1 from n) select i from n where i <= 3';
  const { code, stdout, stderr } = await kreplay('sql', query, '--data', folder, '--timeout', '1s', '--format', format);
  expect(code).not.toBe(0);
  expect(stdout).toBe(format === 'csv' ? 'i\r\n1\r\n2\r\n3\r\n' : '{"i":1}\n{"i":2}\n{"i":3}\n');
  expect(stderr).toMatch(/no rows after 1 s/);
});
