/**
 * Events in the browser: one array per field, one place per event, in order of start. Names are kept once, in
 * dictionaries that the arrays refer to by index.
 */
import { formatEventId } from '../../base/event_id.ts';

export interface Recording {
  recordingId: string;
  node: string;
}

export interface Thread {
  /** Index in `recordings`. */
  recording: number;
  pid: number;
  tid: number;
  comm: string;
  /** The service of the thread's events; for write-back, the service whose data is written. */
  service: string;
}

export interface What {
  /** The operation of a block request, the system call otherwise; empty for an event type with neither. */
  operation: string;
  /** The file or device; null if there is none, or if it is not known. */
  target: string | null;
  fileKind: string | null;
}

export interface EventOwner {
  transactionId: string | null;
  /** `attribution.source` of the API. */
  source: string;
  /** `attribution.quality` of the API. */
  quality: string;
  /** Transaction of the task that queued the request; null if that task had none, and for calls. */
  queuedBy: string | null;
}

export interface OriginOwner {
  service: string;
  transactionId: string | null;
}

/** Owners of the data that block requests carry: one place per origin, in order of row. */
export interface Origins {
  row: Uint32Array;
  /** Index in `owners`. */
  owner: Uint32Array;
  bytes: BigUint64Array;
  owners: OriginOwner[];
}

export const EXACT_FIELDS = ['start', 'duration', 'result', 'bytes', 'queue', 'number'] as const;
export type ExactField = (typeof EXACT_FIELDS)[number];

/** Values beyond 2^53 by row: the arrays have them rounded, which is enough for pixels and not for text. */
export type ExactValues = Record<ExactField, Map<number, bigint>>;

export interface EventColumns {
  count: number;
  /** Time of offset 0, nanoseconds since the epoch. */
  baseNs: bigint;
  /** Offset from `baseNs`, nanoseconds. It is exact for 104 days. */
  start: Float64Array;
  /** Nanoseconds. */
  duration: Float64Array;
  /** Key in `types`. */
  type: Uint8Array;
  thread: Uint32Array;
  what: Uint32Array;
  owner: Uint32Array;
  /** Bytes transferred, 0 for a sync, or a negative errno. */
  result: Float64Array;
  /** Bytes that were asked for; NaN if there are none, or if they are not known. */
  bytes: Float64Array;
  /** Wait of a request before the device got it, nanoseconds; NaN if there is none. */
  queue: Float64Array;
  /** The event's number in its recording. */
  number: Float64Array;
  exact: ExactValues;
  types: Map<number, string>;
  recordings: Recording[];
  threads: Thread[];
  whats: What[];
  owners: EventOwner[];
  /** Names of negative results. */
  errors: Map<number, string>;
  origins: Origins;
}

export const createExactValues = (): ExactValues => ({
  start: new Map(),
  duration: new Map(),
  result: new Map(),
  bytes: new Map(),
  queue: new Map(),
  number: new Map(),
});

/** The memory of the columns, for `postMessage`, which leaves the sender without them. */
export function listBuffers({ origins, ...columns }: EventColumns): ArrayBuffer[] {
  const arrays = [...Object.values(columns), origins.row, origins.owner, origins.bytes];
  return arrays.filter((value) => ArrayBuffer.isView(value)).map(({ buffer }) => buffer as ArrayBuffer);
}

/** The value without rounding; null where there is none. */
export function getExactValue(columns: EventColumns, field: ExactField, row: number): bigint | null {
  const exact = columns.exact[field].get(row);
  if (exact !== undefined) return exact;
  const value = columns[field][row]!;
  return Number.isNaN(value) ? null : BigInt(value);
}

/** Start of the event, nanoseconds since the epoch. */
export function startNs(columns: EventColumns, row: number): bigint {
  return columns.baseNs + getExactValue(columns, 'start', row)!;
}

export function getThread({ threads, thread }: EventColumns, row: number): Thread {
  return threads[thread[row]!]!;
}

export function getWhat({ whats, what }: EventColumns, row: number): What {
  return whats[what[row]!]!;
}

export function getOwner({ owners, owner }: EventColumns, row: number): EventOwner {
  return owners[owner[row]!]!;
}

export function getRecording(columns: EventColumns, row: number): Recording {
  return columns.recordings[getThread(columns, row).recording]!;
}

/** Name of the event type; a newer daemon may have types without a name here. */
export function typeName({ types, type }: EventColumns, row: number): string {
  return types.get(type[row]!) ?? `type ${type[row]}`;
}

export function getEventId(columns: EventColumns, row: number): string {
  return formatEventId(getRecording(columns, row).recordingId, getExactValue(columns, 'number', row)!);
}

/** Name of the error with which the event ended; null if it did not fail. */
export function getErrorName({ errors, result }: EventColumns, row: number): string | null {
  const value = result[row]!;
  return value < 0 ? (errors.get(value) ?? `errno ${-value}`) : null;
}

/** The owners of the data that a request carries, with the bytes of each. */
export function collectOrigins({ origins }: EventColumns, row: number): (OriginOwner & { bytes: bigint })[] {
  const found: (OriginOwner & { bytes: bigint })[] = [];
  for (let at = findFirstAtLeast(origins.row, row); origins.row[at] === row; at++)
    found.push({ ...origins.owners[origins.owner[at]!]!, bytes: origins.bytes[at]! });
  return found;
}

/** Index of the first value of an ascending array that is at least `bound`; its length if none is. */
export function findFirstAtLeast(values: ArrayLike<number>, bound: number): number {
  let [from, to] = [0, values.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle]! < bound) from = middle + 1;
    else to = middle;
  }
  return from;
}
