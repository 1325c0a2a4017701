/** Tests that the page's questions about a transaction reach the API as they are meant. */
import { parseEventQuery } from '../../daemon/contract/event_query.ts';
import type { ReceivedTransaction } from '../../daemon/contract/received.ts';
import { buildLanesQuestion, buildPartQuestion } from '../../daemon/page/views/use_lanes.ts';

const HOSTILE = ['a,b', 'rack\\,1', '\\', ',', 'a b', '%2C', 'ü&node=x'];

function transactionOf(name: string, nodes: string[]): ReceivedTransaction {
  return { transaction_id: name, first_timestamp_ns: 5n, last_end_ns: 9n, event_count: 1, nodes } as never;
}

/** Returns the filter that the API reads from a path of the page. */
function readFilter(path: string) {
  const given = new URL(path, 'http://x').searchParams;
  const query = Object.fromEntries([...new Set(given.keys())].map((name) => [name, given.getAll(name)]));
  const single = Object.entries(query).map(([name, values]) => [name, values.length === 1 ? values[0]! : values]);
  return parseEventQuery(Object.fromEntries(single), 0n).filter;
}

test.each([...HOSTILE.map((node) => [node]), ['a,b', 'a'], HOSTILE])(
  'of the nodes %j others are asked for',
  (...nodes) => {
    const transaction = transactionOf('order-1', nodes);
    for (const { othersPath } of [
      buildLanesQuestion(transaction, { clock_offset: [] }),
      buildPartQuestion(transaction, { from: 6n, to: 8n }),
    ])
      expect(readFilter(othersPath).nodes).toEqual(nodes);
  },
);

test.each(HOSTILE)('of the transaction %j its events and what it queued are asked for', (name) => {
  const { ownPath, queuedPaths } = buildLanesQuestion(transactionOf(name, ['a']), { clock_offset: [] });
  expect(readFilter(ownPath).transactionId).toBe(name);
  expect(readFilter(queuedPaths[0]!).queuers).toContain(name);
});
