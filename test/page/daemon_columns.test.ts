/** The page reads what the daemon writes. */
import { createColumnsBuilder } from '../../daemon/page/columns/builder.ts';
import {
  errorName,
  eventId,
  exactValue,
  originsOf,
  ownerOf,
  recordingOf,
  startNs,
  threadOf,
  typeName,
  whatOf,
} from '../../daemon/page/columns/event_columns.ts';
import { type PlainEvent, plainEvent } from '../daemon/column_answer.ts';
import { exampleRecording } from '../daemon/example_recording.ts';
import { served } from '../daemon/served.ts';

test('an answer of the daemon is read as the same events that it gives as NDJSON', async () => {
  const app = await served(exampleRecording());
  const accept = 'application/vnd.kreplay.columns';
  const { text } = await app.get('/api/events', { headers: { accept } });
  const builder = createColumnsBuilder();
  for (const line of text.split('\n').slice(0, -1)) builder.add(line);
  const columns = builder.finish();
  const events = Array.from({ length: columns.count }, (_, row): PlainEvent => {
    const { pid, tid, comm, service } = threadOf(columns, row);
    const { operation, target, fileKind } = whatOf(columns, row);
    const { transactionId, source, quality } = ownerOf(columns, row);
    return {
      ...{ event_id: eventId(columns, row), node: recordingOf(columns, row).node, event_type: typeName(columns, row) },
      ...{ timestamp_ns: startNs(columns, row), duration_ns: exactValue(columns, 'duration', row)! },
      ...{ thread: [BigInt(pid), BigInt(tid), comm, service], what: [operation, target, fileKind] },
      ...{ owner: [transactionId, source, quality], result: exactValue(columns, 'result', row)! },
      ...{ error: errorName(columns, row), bytes: exactValue(columns, 'bytes', row) },
      queue_ns: exactValue(columns, 'queue', row),
      origins: originsOf(columns, row).map((one) => [one.service, one.transactionId, BigInt(one.bytes)]),
    };
  });
  expect(events).toEqual((await app.lines('/api/events')).map(plainEvent));
  expect(events).toHaveLength(7);
  expect(builder.coverage).toMatchObject({ complete: false, lost: 12 });
});
