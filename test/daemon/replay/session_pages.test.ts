/** Tests the list of sessions in pages, over HTTP. */
import { recorded, START } from '../recorded.ts';
import { type Served, serve } from '../served.ts';

const SESSIONS = '/api/replay/sessions';

let served: Served;
beforeAll(async () => {
  served = await serve(recorded([{ at: START, transaction: 'tx-1' }]));
});
afterAll(() => served.close());

async function create(): Promise<string> {
  const headers = { 'content-type': 'application/json' };
  const { status, json } = await served.get(SESSIONS, { method: 'POST', headers, body: '{"transaction_id":"tx-1"}' });
  expect(status).toBe(201);
  return json.session_id;
}

test('the list is returned in pages, each session once, even if others are created or deleted meanwhile', async () => {
  const list = async (query: string) => (await served.get(`${SESSIONS}?${query}`)).json;
  const made = await Promise.all(Array.from({ length: 5 }, create));
  expect((await list('')).next_cursor).toBeNull();
  const before = new Set(made);
  const seen: string[] = [];
  let cursor: string | null = '';
  for (let page = 0; cursor !== null; page++) {
    const { sessions, next_cursor } = await list(`limit=2${cursor && `&cursor=${cursor}`}`);
    expect(sessions.length).toBeLessThanOrEqual(2);
    seen.push(...sessions.map(({ session_id }: { session_id: string }) => session_id));
    // The last session of the page is deleted: the next page must be found without it.
    if (page === 0) await served.get(`${SESSIONS}/${seen.at(-1)}`, { method: 'DELETE' });
    cursor = next_cursor;
  }
  expect(new Set(seen)).toEqual(before);
  expect(seen).toHaveLength(before.size);
  const { next_cursor } = await list('limit=1');
  expect([await list('limit=0'), await list('limit=1001'), await list(`limit=2&cursor=${next_cursor}`)]).toMatchObject([
    { code: 'invalid_parameter' },
    { code: 'invalid_parameter' },
    { code: next_cursor === null ? 'invalid_cursor' : 'cursor_mismatch' },
  ]);
});
