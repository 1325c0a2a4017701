/** Converts rows of a block to events of the API. */

import { findQueuer } from '../../../agent/recording/format/queuer.ts';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { type NumberedBlock, typeRows } from '../../../bpf/schema/block.ts';
import { commonFields } from '../../../bpf/schema/common.ts';
import { getApiName } from '../../../bpf/schema/define.ts';
import { type EventDefinition, findEventDefinition } from '../../../bpf/schema/index.ts';
import { type Kind, ORIGINS_MAX } from '../../../bpf/schema/kinds.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../../bpf/schema/owner.ts';
import { formatEventId } from '../../base/event_id.ts';
import { createTimeFormatter } from '../../base/time_text.ts';
import { nameError } from './errno.ts';
import {
  createRecordingReader,
  type Dictionary,
  type EventKey,
  getBigColumn,
  getColumn,
  type ScannedBlock,
} from './scanned_block.ts';

/**
 * Number of events that are created in one step. A replay's clock runs in this process and must not wait for a whole
 * block.
 */
const CHUNK_EVENTS = 256;

/** Returns the events in the block's order. The block must have all columns. */
export function readBlockEvents(scanned: ScannedBlock): ApiEvent[] {
  const read = createEventReader(scanned);
  return Array.from({ length: scanned.block.rowCount }, (_, row) => read(row));
}

/**
 * Yields the events of `readBlockEvents` in short chunks, which are created on demand. A block without events yields
 * one empty chunk, a pause in which other work can run.
 */
export function* readEventChunks(scanned: ScannedBlock): Generator<ApiEvent[], void> {
  const { rowCount } = scanned.block;
  const read = createEventReader(scanned);
  for (let first = 0; first === 0 || first < rowCount; first += CHUNK_EVENTS) {
    const length = Math.min(CHUNK_EVENTS, rowCount - first);
    yield Array.from({ length }, (_, at) => read(first + at));
  }
}

/** Returns the key of a row. */
export function readEventKey({ block, dictionary }: ScannedBlock, row: number): EventKey {
  const timestampNs = getBigColumn(block, 'timestamp_ns')[row]!;
  const { recordingId } = dictionary.recording(createRecordingReader(block)(row));
  return { timestamp_ns: timestampNs, event_id: formatEventId(recordingId, block.numbers[row]!) };
}

function createEventReader({ block, dictionary }: ScannedBlock): (row: number) => ApiEvent {
  const type = getColumn(block, 'event_type');
  const timestamp = getBigColumn(block, 'timestamp_ns');
  const duration = getBigColumn(block, 'duration_ns');
  const service = getColumn(block, 'service');
  const context = getColumn(block, 'context');
  const source = getColumn(block, 'context_source');
  const quality = getColumn(block, 'context_quality');
  const pid = getColumn(block, 'pid');
  const tid = getColumn(block, 'tid');
  const comm = getColumn(block, 'comm');
  const cpu = getColumn(block, 'cpu');
  const result = getBigColumn(block, 'result');
  const readRecordingIndex = createRecordingReader(block);
  const ownRows = typeRows(block);
  const ownReaders = createTypeReaders(block, dictionary);
  const formatTimestamp = createTimeFormatter();

  return (row) => {
    const { transactionId, traceId, spanId } = dictionary.context(context[row]!);
    const { recordingId, node } = dictionary.recording(readRecordingIndex(row));
    const event: Record<string, unknown> = {
      event_id: formatEventId(recordingId, block.numbers[row]!),
      event_type: findEventDefinition(type[row]!)!.name,
      timestamp_ns: timestamp[row]!,
      timestamp: formatTimestamp(timestamp[row]!),
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
      error: nameError(result[row]!),
    };
    for (const [name, read] of ownReaders[type[row]!]!) event[name] = read(ownRows[row]!);
    // The compiler cannot check an event that is built field by field, so a test checks events against the API's
    // schema.
    return event as unknown as ApiEvent;
  };
}

function createTypeReaders(
  block: ScannedBlock['block'],
  dictionary: ScannedBlock['dictionary'],
): [string, FieldReader][][] {
  return Array.from(block.typeCounts, (count, id) =>
    count > 0 ? createOwnReaders(findEventDefinition(id)!, block, dictionary) : [],
  );
}

/* Readers for fields that only one event type has, derived from the definition of that type. */

/** Returns the value at an index in the columns that only this type has. */
type FieldReader = (index: number) => unknown;

function createOwnReaders(
  event: EventDefinition,
  block: NumberedBlock,
  dictionary: Dictionary,
): [string, FieldReader][] {
  return Object.entries(event.fields)
    .filter(([name, { kind }]) => !(name in commonFields) && kind.columns.length > 0)
    .flatMap(([fieldName, field]) => {
      const name = getApiName(fieldName, field);
      return createFieldReaders(name, field.kind, `${event.name}.${name}`, block, dictionary);
    });
}

function createFieldReaders(
  name: string,
  kind: Kind,
  columnName: string,
  block: NumberedBlock,
  dictionary: Dictionary,
): [string, FieldReader][] {
  switch (kind.source) {
    case 'text': {
      const ids = getColumn(block, columnName);
      return [[name, (index) => dictionary.name(ids[index]!)]];
    }
    case 'file': {
      const ids = getColumn(block, columnName);
      return [
        [name, (index) => dictionary.file(ids[index]!)?.path ?? null],
        ['file_kind', (index) => dictionary.file(ids[index]!)?.kind ?? 'unknown'],
      ];
    }
    case 'queuer': {
      const services = getColumn(block, `${columnName}_service`);
      const contexts = getColumn(block, `${columnName}_context`);
      return [[name, (index) => findQueuer(dictionary, services[index]!, contexts[index]!)]];
    }
    case 'origins':
      return [[name, createOriginsReader(columnName, block, dictionary)]];
    default:
      return [[name, createValueReader(kind, columnName, block)]];
  }
}

function createValueReader(kind: Kind, columnName: string, block: NumberedBlock): FieldReader {
  const { labels, unknown } = kind;
  if (labels) {
    const values = getColumn(block, columnName);
    return (index) => labels.get(values[index]!);
  }
  const values = block.columns.get(columnName)!;
  if (unknown === undefined) return (index) => values[index];
  return (index) => (values[index] === unknown ? null : values[index]);
}

function createOriginsReader(columnName: string, block: NumberedBlock, dictionary: Dictionary): FieldReader {
  const slots = Array.from({ length: ORIGINS_MAX }, (_, slot) => ({
    services: getColumn(block, `${columnName}_${slot}_service`),
    contexts: getColumn(block, `${columnName}_${slot}_context`),
    bytes: getBigColumn(block, `${columnName}_${slot}_bytes`),
  }));
  return (index) =>
    slots
      .filter(({ services, contexts, bytes }) => services[index] || contexts[index] || bytes[index])
      .map(({ services, contexts, bytes }) => ({
        service_name: dictionary.name(services[index]!),
        transaction_id: dictionary.context(contexts[index]!).transactionId,
        bytes: bytes[index]!,
      }));
}
