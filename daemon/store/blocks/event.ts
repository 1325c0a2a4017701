/** Converts rows of a block to events of the API. */

import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { typeRows } from '../../../bpf/schema/block.ts';
import { eventById } from '../../../bpf/schema/index.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';
import { formatEventId } from '../../base/event_id.ts';
import { bigColumn, column } from './column.ts';
import { errorName } from './errno.ts';
import { type FieldReader, ownFields } from './own_fields.ts';
import { type EventKey, recordingOf, type ScannedBlock } from './scanned_block.ts';

/** Number of events made in one step: a replay's clock runs in this process and must not wait for a whole block. */
const PIECE_EVENTS = 256;

/** Returns the events in the block's order. The block must have all columns. */
export function eventsOf(scanned: ScannedBlock): ApiEvent[] {
  const read = eventReader(scanned);
  return Array.from({ length: scanned.block.rowCount }, (_, row) => read(row));
}

/**
 * Yields the same events in short pieces, each made on demand. A block without events yields one empty piece: a pause.
 */
export function* eventPieces(scanned: ScannedBlock): Generator<ApiEvent[], void> {
  const { rowCount } = scanned.block;
  const read = eventReader(scanned);
  for (let first = 0; first === 0 || first < rowCount; first += PIECE_EVENTS) {
    const length = Math.min(PIECE_EVENTS, rowCount - first);
    yield Array.from({ length }, (_, at) => read(first + at));
  }
}

/** Returns the key of a row. */
export function keyOf({ block, dictionary }: ScannedBlock, row: number): EventKey {
  const timestampNs = bigColumn(block, 'timestamp_ns')[row]!;
  const { recordingId } = dictionary.recording(recordingOf(block)(row));
  return { timestamp_ns: timestampNs, event_id: formatEventId(recordingId, block.numbers[row]!) };
}

function eventReader({ block, dictionary }: ScannedBlock): (row: number) => ApiEvent {
  const type = column(block, 'event_type');
  const timestamp = bigColumn(block, 'timestamp_ns');
  const duration = bigColumn(block, 'duration_ns');
  const service = column(block, 'service');
  const context = column(block, 'context');
  const source = column(block, 'context_source');
  const quality = column(block, 'context_quality');
  const pid = column(block, 'pid');
  const tid = column(block, 'tid');
  const comm = column(block, 'comm');
  const cpu = column(block, 'cpu');
  const result = bigColumn(block, 'result');
  const indexOf = recordingOf(block);
  const ownRows = typeRows(block);
  const ownReaders = readersByType(block, dictionary);

  return (row) => {
    const { transactionId, traceId, spanId } = dictionary.context(context[row]!);
    const { recordingId, node } = dictionary.recording(indexOf(row));
    const event: Record<string, unknown> = {
      event_id: formatEventId(recordingId, block.numbers[row]!),
      event_type: eventById(type[row]!)!.name,
      timestamp_ns: timestamp[row]!,
      duration_ns: duration[row]!,
      service_name: dictionary.name(service[row]!),
      transaction_id: transactionId,
      trace_id: traceId,
      span_id: spanId,
      attribution: { source: ATTRIBUTION_SOURCES[source[row]!], quality: ATTRIBUTION_QUALITIES[quality[row]!] },
      node,
      pid: pid[row]!,
      tid: tid[row]!,
      comm: dictionary.name(comm[row]!),
      cpu: cpu[row]!,
      result: result[row]!,
      error: errorName(result[row]!),
    };
    for (const [name, read] of ownReaders[type[row]!]!) event[name] = read(ownRows[row]!);
    // The schema built the event field by field; a test checks it against the API's own schema.
    return event as unknown as ApiEvent;
  };
}

function readersByType(
  block: ScannedBlock['block'],
  dictionary: ScannedBlock['dictionary'],
): [string, FieldReader][][] {
  return Array.from(block.typeCounts, (count, id) => (count > 0 ? ownFields(eventById(id)!, block, dictionary) : []));
}
