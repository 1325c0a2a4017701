/** Tests that every name of an answer can be asked for, alone and with others, by the API, the commands and the page. */
import fc from 'fast-check';
import { escapeListItem, parseListItems } from '../../../daemon/base/list_text.ts';
import { filterParameters } from '../../../daemon/page/link/filters.ts';
import { EMPTY_LINK, FILTERED, type Filtered, type Link } from '../../../daemon/page/link/link.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { times } from '../../repeats.ts';
import { kreplay } from '../command_line.ts';
import { type Row, recordedOn, recordingPath, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';
import type { PlainEvent } from './drawn_filters.ts';

/** No name is another one with spaces around it: those are found together. */
const NAMES = [
  ...[
    'a',
    'b',
    'a,b',
    'a\\,b',
    'a\\',
    '\\',
    '\\\\',
    ',',
    ',,',
    '\\,',
    'a\\\\,',
    'a=b',
    '=',
    'x&y',
    'a, b',
    '-a',
    '%2C',
  ],
  ...['a\\b', '"a"', "'", '+', 'a b\\', ' '],
];
const FIELDS = ['service', 'node', 'device', 'comm', 'file'] as const;

/** One recording with every name but those of nodes, and one recording for each node: each is read in every answer. */
let named: { served: Served; events: PlainEvent[] };
let onNodes: typeof named;
beforeAll(async () => {
  const rows = NAMES.flatMap((name, i): Row[] => [
    { at: START - 1000n + BigInt(i), service: name, comm: name, file: name, transaction: name },
    { at: START - 500n + BigInt(i), type: 'block_io', device: name, service: 'other', transaction: `${name} too` },
  ]);
  const ofNode = (node: string, i: number) =>
    recordedOn(node, [{ at: START - 2000n + BigInt(i), service: 'other', transaction: `on ${node}` }]);
  named = await servedWith([recordedOn('other', rows)]);
  onNodes = await servedWith(NAMES.map(ofNode));
});
afterAll(() => Promise.all([named, onNodes].map(({ served }) => served.close())));

async function servedWith(folders: readonly string[]): Promise<typeof named> {
  const served = await serve(openRecordingStore(undefined, folders.map(recordingPath)));
  return { served, events: (await served.lines('/api/events')).map((line) => JSON.parse(line)) };
}

const fieldOf = (event: PlainEvent, field: string) => event[field === 'service' ? 'service_name' : field];
const recordingOf = (field: string) => (field === 'node' ? onNodes : named);
const idsWith = (field: string, names: readonly string[]) =>
  recordingOf(field)
    .events.filter((event) => names.includes(fieldOf(event, field)))
    .map(({ event_id }) => event_id);
const idsIn = (lines: readonly string[]) => lines.map((line) => JSON.parse(line).event_id);
const some = fc.uniqueArray(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 4 });

test('any names are read as they were written, alone and in a list', () => {
  const name = fc.string({ minLength: 1, unit: fc.constantFrom('a', '\\', ',', '=', ' ', '\u0000') });
  fc.assert(
    fc.property(fc.array(name, { minLength: 1 }), (names) => {
      for (const one of names) expect(parseListItems(escapeListItem(one))).toEqual([one]);
      // A backslash at the end of a name is doubled where a comma follows it.
      const ends = names.map((one) => escapeListItem(one).replace(/\\+$/, '$&$&'));
      expect(parseListItems([...ends, 'end'].join())).toEqual([...names, 'end']);
    }),
  );
});

test('a long run of backslashes is read at once', () => {
  const text = `${'\\'.repeat(1_000_000)}x`;
  expect(parseListItems(text)).toEqual([text]);
});

describe.each(FIELDS)('%s', (field) => {
  test.each(NAMES)('of the name %j is that name only', async (name) => {
    const { served, events } = recordingOf(field);
    const value = encodeURIComponent(escapeListItem(name));
    const expected = idsWith(field, [name]);
    expect(expected).toHaveLength(1);
    expect(idsIn(await served.lines(`/api/events?${field}=${value}`))).toEqual(expected);
    const rest = events.map(({ event_id }) => event_id).filter((id) => !expected.includes(id));
    expect(idsIn(await served.lines(`/api/events?exclude_${field}=${value}`))).toEqual(rest);
    const { transactions } = (await served.get(`/api/transactions?${field}=${value}`)).json;
    expect(transactions).toHaveLength(1);
    const body = JSON.stringify({ where: { [field]: [name] } });
    const headers = { 'content-type': 'application/json' };
    const { status, json } = await served.get('/api/replay/whatif', { method: 'POST', headers, body });
    expect([status, json.transactions.map((one: PlainEvent) => one.transaction_id)]).toEqual([
      200,
      transactions.map((one: PlainEvent) => one.transaction_id),
    ]);
  });

  test('lists of names from the page find each of them', async () => {
    await fc.assert(
      fc.asyncProperty(some, async (names) => {
        const link: Link = { ...EMPTY_LINK, [field]: names };
        const { served } = recordingOf(field);
        expect(idsIn(await served.lines(`/api/events?${filterParameters(link)}`))).toEqual(idsWith(field, names));
      }),
      { numRuns: times(4) },
    );
  });
});

test('one rule is for every filter of the page', async () => {
  for (const name of FILTERED) {
    const values = EXAMPLES[name];
    const link: Link = { ...EMPTY_LINK, [name]: values };
    expect((await named.served.get(`/api/events?${filterParameters(link)}`)).status).toBe(200);
  }
});

const EXAMPLES: Readonly<Record<Filtered, string[]>> = {
  ...{ service: NAMES, node: NAMES, device: NAMES, comm: NAMES, file: NAMES, event_type: ['sys_write', 'block_io'] },
  ...{ operation: ['read', 'write'], syscall: ['write', 'fsync'], error: ['EIO', 'errno 4000'] },
};

test('the commands take the same lists', async () => {
  const run = async ({ served }: typeof named, ...options: string[]) => {
    const { code, stdout } = await kreplay('events', '--url', served.url, '--output', 'ndjson', ...options);
    return [code, stdout.trim() === '' ? [] : idsIn(stdout.trim().split('\n'))];
  };
  expect(await run(named, '--comm', 'a\\,b')).toEqual([0, idsWith('comm', ['a,b'])]);
  expect(await run(named, '--comm', 'a,b')).toEqual([0, idsWith('comm', ['a', 'b', 'a,b'])]);
  expect(await run(named, '--service', 'a\\', '--service', 'b')).toEqual([0, idsWith('service', ['a\\', 'b'])]);
  expect(await run(named, '--device', 'a\\\\,b')).toEqual([0, idsWith('device', ['a\\', 'b', 'a\\,b'])]);
  expect(await run(onNodes, '--node', 'a\\,b', '--node', ' ')).toEqual([0, idsWith('node', ['a,b', ' '])]);
  const others = await run(named, '--exclude-file', 'a\\\\\\,b');
  const left = named.events.map(({ event_id }) => event_id).filter((id) => !idsWith('file', ['a\\,b']).includes(id));
  expect(others).toEqual([0, left]);
}, 60_000);
