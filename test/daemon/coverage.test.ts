/** An answer says what the recording is missing in its window, and nothing of other windows. */
import { recorded, START } from './recorded.ts';
import { type Served, serve } from './served.ts';

const S = 1_000_000_000n;

let served: Served;
beforeAll(async () => {
  const folder = recorded([{ at: START }, { at: START + 100n * S }], (writer) => {
    const lose = (from: bigint, to: bigint, count: number, cause: 'ring_full' | 'no_memory' = 'ring_full') =>
      writer.recordLoss({ cause, eventType: 'sys_write', count, fromNs: START + from * S, toNs: START + to * S });
    lose(10n, 11n, 7);
    lose(11n, 12n, 5);
    lose(11n, 12n, 1, 'no_memory');
    lose(20n, 21n, 100);
  });
  served = await serve(folder);
});
afterAll(() => served.close());

async function coverage(query: string): Promise<string> {
  const { text } = await served.get(`/api/events?${query}`);
  return text.slice(text.indexOf('"coverage":') + 11, -1);
}

const gap = (from: bigint, to: bigint, lost: number, cause = 'ring_full') =>
  `{"from":${START + from * S},"to":${START + to * S},"lost":${lost},"cause":"${cause}"}`;

test('all_losses_touching_gaps_of_one_cause_as_one', async () => {
  expect(await coverage('')).toBe(
    `{"lost":113,"gaps":[${[gap(10n, 12n, 12), gap(11n, 12n, 1, 'no_memory'), gap(20n, 21n, 100)]}]}`,
  );
});

test('only_losses_that_touch_the_window', async () => {
  expect(await coverage(`from=${START + 20n * S}`)).toBe(`{"lost":100,"gaps":[${gap(20n, 21n, 100)}]}`);
  expect(await coverage(`to=${START + 10n * S}`)).toBe('{"lost":0,"gaps":[]}');
  expect(await coverage(`from=${START + 30n * S}`)).toBe('{"lost":0,"gaps":[]}');
});

test('a_stream_says_how_many_ahead_of_its_lines', async () => {
  const headers = { accept: 'application/x-ndjson' };
  expect((await served.get('/api/events', { headers })).headers['kreplay-lost']).toBe('113');
  expect((await served.get(`/api/events?from=${START + 30n * S}`, { headers })).headers['kreplay-lost']).toBe('0');
});
