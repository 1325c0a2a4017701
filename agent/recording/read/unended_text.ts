/**
 * Encodes calls and requests in progress on a node as JSON, and parses such texts. Times are texts, because numbers in
 * JSON are not exact.
 */
import { EVENT_TYPES, type EventType } from '../../../bpf/schema/index.ts';
import type { Queuer } from '../../../bpf/schema/kinds.ts';
import { NONE_UNLISTED } from '../format/in_progress.ts';
import type { RecordedUnended, UnendedLists, UnendedOwner } from './unended.ts';

/** Maximum length of a text. Texts from `encodeUnended` are shorter. */
const LENGTH_MAX = 4_000_000;

/** Maximum number of `lost` entries in a text. Entries that it omits are still reported as losses. */
const LOST_MAX = 64;

const NOTHING: UnendedLists = { events: [], lost: [], unlisted: NONE_UNLISTED };

/** Encodes the lists; returns '' if nothing is in progress. */
export function encodeUnended({ events, lost, unlisted }: UnendedLists): string {
  if (events.length === 0 && lost.length === 0 && unlisted.count === 0) return '';
  return JSON.stringify({ events, lost: lost.slice(-LOST_MAX), unlisted }, (_, value) =>
    typeof value === 'bigint' ? String(value) : value,
  );
}

/** Parses a text; returns undefined if the text is malformed. The text comes from a server, which may send anything. */
export function parseUnended(text: string): UnendedLists | undefined {
  if (text === '') return NOTHING;
  if (text.length > LENGTH_MAX) return undefined;
  try {
    const { events, lost, unlisted } = parseFields(JSON.parse(text));
    const { count, labelled, sinceNs } = parseFields(unlisted);
    return {
      events: parseList(events).map(parseEvent),
      lost: parseList(lost).map(parseEvent),
      unlisted: { count: parseNumber(count), labelled: parseNumber(labelled), sinceNs: parseTimeNs(sinceNs) },
    };
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

type JsonFields = Readonly<Record<string, unknown>>;

function parseEvent(value: unknown): RecordedUnended {
  const fields = parseFields(value);
  const { event_type, syscall, file, operation, device, queued_by } = fields;
  if (!EVENT_TYPES.includes(event_type as EventType)) throw createMalformedError('event_type');
  return {
    ...parseOwner(fields),
    event_type: event_type as EventType,
    timestamp_ns: parseTimeNs(fields.timestamp_ns),
    pid: parseNumber(fields.pid),
    tid: parseNumber(fields.tid),
    comm: parseText(fields.comm),
    ...(syscall !== undefined && { syscall: parseText(syscall) }),
    ...(file !== undefined && { file: parseTextOrNull(file) }),
    ...(operation !== undefined && { operation: parseText(operation) }),
    ...(device !== undefined && { device: parseText(device) }),
    ...(queued_by !== undefined && { queued_by: queued_by === null ? null : parseQueuer(parseFields(queued_by)) }),
    origins: parseList(fields.origins).map((origin) => parseOwner(parseFields(origin))),
  };
}

function parseQueuer({ service_name, transaction_id }: JsonFields): Queuer {
  return { service_name: parseText(service_name), transaction_id: parseTextOrNull(transaction_id) };
}

function parseOwner({ service_name, transaction_id, trace_id }: JsonFields): UnendedOwner {
  return {
    service_name: parseText(service_name),
    transaction_id: parseTextOrNull(transaction_id),
    trace_id: parseTextOrNull(trace_id),
  };
}

function parseFields(value: unknown): JsonFields {
  if (typeof value !== 'object' || value === null) throw createMalformedError('object');
  return value as JsonFields;
}

function parseList(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw createMalformedError('list');
  return value;
}

function parseText(value: unknown): string {
  if (typeof value !== 'string') throw createMalformedError('text');
  return value;
}

function parseTextOrNull(value: unknown): string | null {
  return value === null ? null : parseText(value);
}

function parseNumber(value: unknown): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw createMalformedError('number');
  return value as number;
}

function parseTimeNs(value: unknown): bigint {
  if (!/^\d{1,20}$/.test(parseText(value))) throw createMalformedError('time');
  return BigInt(value as string);
}

/** Creates the error for a malformed value. It has the same class as the error for a text that is not JSON. */
function createMalformedError(what: string): SyntaxError {
  return new SyntaxError(`a ${what} is malformed`);
}
