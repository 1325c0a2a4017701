/** The page reads what the daemon writes. */
import { createColumnsBuilder } from '../../daemon/model/columns/builder.ts';
import {
  collectOrigins,
  getErrorName,
  getEventId,
  getExactValue,
  getOwner,
  getRecording,
  getThread,
  getWhat,
  startNs,
  typeName,
} from '../../daemon/model/columns/event_columns.ts';
import { type PlainEvent, plainEvent } from '../daemon/column_answer.ts';
import { exampleRecording } from '../daemon/example_recording.ts';
import { type Row, recorded, START } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';

/** Requests that carry data of several transactions, which write-back joins, beside ones that carry that of one. */
function sharedRequests(): string {
  const requests = Array.from({ length: 600 }, (_, i): Row => {
    const ofOne = { service: 'shop', transaction: `order-${i}`, bytes: i === 5 ? 2n ** 53n + 1n : 4096n };
    const ofOther = { service: 'db', transaction: `order-${i + 1}`, bytes: 512n };
    return { type: 'block_io', at: START + BigInt(i), origins: i % 3 === 0 ? [ofOne, ofOther] : [ofOne] };
  });
  return recorded(requests);
}

test.each([
  ['of the examples', exampleRecording, 7],
  ['of shared requests', sharedRequests, 600],
])('an answer of the daemon is read as the same events that it gives as NDJSON: %s', async (_, recording, count) => {
  const app = await served(recording());
  const accept = 'application/vnd.kreplay.columns';
  const { text } = await app.get('/api/events', { headers: { accept } });
  const builder = createColumnsBuilder();
  for (const line of text.split('\n').slice(0, -1)) builder.add(line);
  const columns = builder.finish();
  const events = Array.from({ length: columns.count }, (_, row): PlainEvent => {
    const { pid, tid, comm, service } = getThread(columns, row);
    const { operation, target, fileKind } = getWhat(columns, row);
    const { transactionId, source, quality, queuedBy } = getOwner(columns, row);
    return {
      ...{
        event_id: getEventId(columns, row),
        node: getRecording(columns, row).node,
        event_type: typeName(columns, row),
      },
      timestamp_ns: startNs(columns, row),
      duration_ns: getExactValue(columns, 'duration', row)!,
      ...{ thread: [BigInt(pid), BigInt(tid), comm, service], what: [operation, target, fileKind] },
      owner: [transactionId, source, quality, queuedBy],
      result: getExactValue(columns, 'result', row)!,
      error: getErrorName(columns, row),
      bytes: getExactValue(columns, 'bytes', row),
      queue_ns: getExactValue(columns, 'queue', row),
      origins: collectOrigins(columns, row).map((one) => [one.service, one.transactionId, one.bytes]),
    };
  });
  expect(events).toEqual((await app.lines('/api/events')).map(plainEvent));
  expect(events).toHaveLength(count);
  expect(builder.coverage).toMatchObject(count === 7 ? { complete: false, lost: 12 } : { complete: true, lost: 0 });
});
