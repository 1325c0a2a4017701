/** Tests that a filter by a value of a comparison selects what the row counted, for files and folders of any name. */
import { escapeListItem } from '../../../../daemon/base/list_text.ts';
import { type Row, recorded, START } from '../../recorded.ts';
import { type Served, serve } from '../../served.ts';
import { ask, type Value } from './compared.ts';

/** Each is written often; those with a mark fail. */
const FILES = [
  ...['!/srv/db/1', '/srv/db/wal/1', '!/srv/db/wal/deep/1', '!/srv/db/*', '/srv/db', '!/srv/dbx/1', '/srv/1'],
  ...['!/a\\/1', '/a/1', '!/a\\\\/1', '/a\\/b/1', '!/c,d/1', '/c\\,d/1', '!/c/1', '/top', '!/', '*', '!/x*', '/x'],
  ...['!pipe:[1]', '/ü b/1', '!/y/\\*', '/y/\\', '!relative/1'],
];
const EACH = 32;

let served: Served;
beforeAll(async () => {
  served = await serve(
    recorded(
      Array.from({ length: FILES.length * EACH }, (_, i): Row => {
        const file = FILES[i % FILES.length]!;
        const result = file.startsWith('!') ? -5n : 0n;
        return { at: START - 10_000n + BigInt(i), transaction: `tx-${i}`, file: file.replace('!', ''), result };
      }),
    ),
  );
});
afterAll(() => served.close());

const query = (name: string, { value }: Value) => `${name}=${encodeURIComponent(escapeListItem(value))}`;

test.each(['events', 'transactions'])(
  '%s: every row finds its count',
  async (of) => {
    const list = of === 'events' ? '/api/stats?' : '/api/heatmap?';
    const [wanted, failed] = of === 'events' ? ['count', 'failed=true'] : ['count', 'has_error=true'];
    const countOf = async (parameters: string) => (await served.get(list + parameters)).json.total[wanted];
    const all = FILES.length * EACH;
    expect(await countOf('')).toBe(all);
    const { differences } = await ask(served, `of=${of}&failed=true`);
    const values = differences.flatMap((row) => row.values).filter(({ field }) => field === 'file');
    for (const one of values) {
      const { value, selected, others } = one;
      expect([value, await countOf(query('file', one))]).toEqual([value, selected + others]);
      expect([value, await countOf(`${query('file', one)}&${failed}`)]).toEqual([value, selected]);
      expect([value, await countOf(query('exclude_file', one))]).toEqual([value, all - selected - others]);
    }
    const folders = ['/srv/db/', '/srv/db/wal/deep/', '/a\\\\/', '/a\\\\\\\\/', '/c,d/', '/y/', 'relative/'];
    const files = ['/srv/db/\\*', '\\/', '/x\\*', '/a\\\\/1', '/c,d/1', 'pipe:[1]', '/y/\\\\\\*'];
    expect(values.map(({ value }) => value)).toEqual(expect.arrayContaining([...folders.slice(1, -2), ...files]));
  },
  60_000,
);
