/** Tests that pages by cursor together equal the unpaged answer, at any page size and with writes in between. */
import fc from 'fast-check';
import { appendRows, newFolder, newWriter, type Row, recorded, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';

/** Many events share a nanosecond: only the event id orders them. */
const rows: Row[] = Array.from({ length: 97 }, (_, i) => ({
  at: START + BigInt(Math.floor(i / 10)),
  pid: 1 + (i % 2),
}));

let served: Served;
beforeAll(async () => {
  served = await serve(recorded(rows));
});
afterAll(() => served.close());

async function allPages(from: Served, query: string): Promise<string[]> {
  const lines: string[] = [];
  for (let cursor = ''; ; ) {
    const { status, text, json } = await from.get(`/api/events?${query}${cursor}`);
    expect(status).toBe(200);
    // Events are split as text, so that no digit goes through a double.
    const events = /^\{"events":\[(.*)\],"next_cursor":/s.exec(text)![1]!;
    if (events) lines.push(...events.split(/(?<=\}),(?=\{"event_id")/));
    if (json.next_cursor === null) return lines;
    cursor = `&cursor=${json.next_cursor}`;
  }
}

test('pages of any size add up to the unpaged answer', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 100 }), fc.constantFrom('asc', 'desc'), async (limit, order) => {
      expect(await allPages(served, `order=${order}&limit=${limit}&pid=1`)).toEqual(
        await served.lines(`/api/events?order=${order}&pid=1`),
      );
    }),
    { numRuns: 25 },
  );
});

test('there is no next page after exactly the last event', async () => {
  expect((await served.get('/api/events?limit=97')).json.next_cursor).toBeNull();
  expect((await served.get('/api/events?limit=96')).json.next_cursor).not.toBeNull();
});

test('a stream starts at a cursor and respects a limit', async () => {
  const { json } = await served.get('/api/events?limit=40');
  const all = await served.lines('/api/events');
  expect(await served.lines(`/api/events?limit=40&cursor=${json.next_cursor}`)).toEqual(all.slice(40, 80));
});

test('a cursor with other parameters is refused', async () => {
  const { json } = await served.get('/api/events?limit=10&pid=1&service=shop,cart');
  const cursor = json.next_cursor;
  const answer = async (query: string) => {
    const { status, json } = await served.get(`/api/events?${query}&cursor=${cursor}`);
    return [status, json.code];
  };
  expect(await answer('service=cart&service=shop&pid=1&limit=10')).toEqual([200, undefined]);
  for (const query of ['limit=10&pid=2&service=shop,cart', 'limit=10&pid=1', 'limit=20&pid=1&service=shop,cart', ''])
    expect([query, ...(await answer(query))]).toEqual([query, 400, 'cursor_mismatch']);
});

test('a relative window stays as the first page determined it', async () => {
  served.setNow(START + 20n);
  const window = 'from=-15ns&to=-12ns&limit=4';
  const first = await served.get(`/api/events?${window}`);
  served.setNow(START + 1_000_000_000n);
  const second = await served.get(`/api/events?${window}&cursor=${first.json.next_cursor}`);
  expect(second.json.events).toHaveLength(4);
  expect(await allPages(served, window)).toEqual([]);
  served.setNow(START);
});

test('a growing recording repeats no event and skips none', async () => {
  const folder = newFolder();
  const writer = newWriter(folder);
  appendRows(writer, rows.slice(0, 30));
  const growing = await serve(folder);
  const first = await growing.get('/api/events?limit=20');
  appendRows(writer, rows.slice(30));
  const rest = await growing.get(`/api/events?limit=20&cursor=${first.json.next_cursor}`);
  expect(rest.json.events).toHaveLength(20);
  const numbersIn = (answer: typeof first) =>
    answer.json.events.map(({ event_id: id }: { event_id: string }) => Number.parseInt(id.slice(-16), 16));
  expect([...numbersIn(first), ...numbersIn(rest)]).toEqual(Array.from({ length: 40 }, (_, i) => i));
  // The late event belongs on a page that was already read.
  appendRows(writer, [{ at: START, pid: 1 }]);
  const late = await growing.get(`/api/events?limit=20&cursor=${rest.json.next_cursor}`);
  expect(numbersIn(late)).toEqual(Array.from({ length: 20 }, (_, i) => 40 + i));
  writer.close();
  await growing.close();
});

describe('with large events', () => {
  const PAGE_BYTES = 8 * 1024 * 1024;
  const EVENTS = 5000;
  const LONG = `/${'long/'.repeat(800)}name`;
  let large: Served;
  beforeAll(async () => {
    large = await serve(
      recorded(
        Array.from({ length: EVENTS }, (_, i): Row => ({ at: START + BigInt(i), transaction: 'tx', file: LONG })),
      ),
    );
  });
  afterAll(() => large.close());

  test.each(['asc', 'desc'])('a page ends early, and nothing is left out: %s', async (order) => {
    const lines = await large.lines(`/api/events?order=${order}`);
    const first = await large.get(`/api/events?order=${order}&limit=10000`);
    expect(first.text.length).toBeLessThan(PAGE_BYTES * 1.5);
    expect(first.json.events.length).toBeGreaterThan(1000);
    expect(first.json.next_cursor).not.toBeNull();
    expect(await allPages(large, `order=${order}&limit=10000`)).toEqual(lines);
  });

  test('a timeline ends early too', async () => {
    const headers = { 'content-type': 'application/json' };
    const body = '{"transaction_id":"tx"}';
    const created = await large.get('/api/replay/sessions', { method: 'POST', headers, body });
    const timeline = `/api/replay/${created.headers.location}/timeline?limit=10000`;
    const ids: string[] = [];
    let parts = 0;
    for (let next = 0; next !== null; parts++) {
      const { json, text } = await large.get(`${timeline}&event_index=${next}`);
      expect(text.length).toBeLessThan(PAGE_BYTES * 1.75);
      ids.push(...json.events.map((event: { event_id: string }) => event.event_id));
      next = json.next_event_index;
    }
    expect(parts).toBeGreaterThan(1);
    expect(new Set(ids).size).toBe(EVENTS);
    expect(ids).toHaveLength(EVENTS);
  });
});
