/**
 * Events in the browser: one array per field, with one element per event, in order of start. Each name is kept once, in
 * a dictionary to which the arrays refer by index.
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
  /** The operation of a block request, otherwise the system call; empty for other event types. */
  operation: string;
  /** The file or device; null if there is none or it is not known. */
  target: string | null;
  fileKind: string | null;
}

export interface EventOwner {
  transactionId: string | null;
  /** The API's `attribution.source`. */
  source: string;
  /** The API's `attribution.quality`. */
  quality: string;
  /** Transaction of the task that queued the request; null if that task had no transaction, and for calls. */
  queuedBy: string | null;
}

export interface OriginOwner {
  service: string;
  transactionId: string | null;
}

/** Owners of the data that block requests carry: one element per origin, in order of row. */
export interface Origins {
  row: Uint32Array;
  /** Index in `owners`. */
  owner: Uint32Array;
  bytes: BigUint64Array;
  owners: OriginOwner[];
}

export const EXACT_FIELDS = ['start', 'duration', 'result', 'bytes', 'queue', 'number'] as const;
export type ExactField = (typeof EXACT_FIELDS)[number];

/**
 * Values beyond 2^53, by field and row. The arrays contain these values rounded, which is exact enough for pixels but
 * not for text.
 */
export type ExactValues = Record<ExactField, Map<number, bigint>>;

export interface EventColumns {
  count: number;
  /** Time of offset 0, in nanoseconds since the epoch. */
  baseNs: bigint;
  /** Offset from `baseNs`, in nanoseconds; exact up to 104 days. */
  start: Float64Array;
  /** Duration in nanoseconds. */
  duration: Float64Array;
  /** Key in `types`. */
  type: Uint8Array;
  thread: Uint32Array;
  what: Uint32Array;
  owner: Uint32Array;
  /** Bytes transferred, 0 for a sync, or a negative errno. */
  result: Float64Array;
  /** Number of bytes requested; NaN if the event has no such number or it is not known. */
  bytes: Float64Array;
  /** Time that a request waited before the device got it, in nanoseconds; NaN if there is no such time. */
  queue: Float64Array;
  /** The event's number in its recording. */
  number: Float64Array;
  exact: ExactValues;
  types: Map<number, string>;
  recordings: Recording[];
  threads: Thread[];
  whats: What[];
  owners: EventOwner[];
  /** Names of errors, by negative result. */
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

/** Returns the buffers of the columns, for `postMessage`, which transfers them: the sender loses the columns. */
export function listBuffers({ origins, ...columns }: EventColumns): ArrayBuffer[] {
  const arrays = [...Object.values(columns), origins.row, origins.owner, origins.bytes];
  return arrays.filter((value) => ArrayBuffer.isView(value)).map(({ buffer }) => buffer as ArrayBuffer);
}

/** Returns the value without rounding; null if the event has no value. */
export function getExactValue(columns: EventColumns, field: ExactField, row: number): bigint | null {
  const exact = columns.exact[field].get(row);
  if (exact !== undefined) return exact;
  const value = columns[field][row]!;
  return Number.isNaN(value) ? null : BigInt(value);
}

/** Returns the start of the event, in nanoseconds since the epoch. */
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

/** Returns the name of the event type; a newer daemon may have types without a name here. */
export function typeName({ types, type }: EventColumns, row: number): string {
  return types.get(type[row]!) ?? `type ${type[row]}`;
}

export function getEventId(columns: EventColumns, row: number): string {
  return formatEventId(getRecording(columns, row).recordingId, getExactValue(columns, 'number', row)!);
}

/** Returns the name of the error with which the event ended; null if the event did not fail. */
export function getErrorName({ errors, result }: EventColumns, row: number): string | null {
  const value = result[row]!;
  return value < 0 ? (errors.get(value) ?? `errno ${-value}`) : null;
}

/** Lists the names of devices to which there are requests. */
export function listDevices(columns: EventColumns): string[] {
  const names = new Set<string>();
  const isRequest = markRequestTypes(columns);
  for (let row = 0; row < columns.count; row++) {
    if (!isRequest[columns.type[row]!]) continue;
    const { target } = getWhat(columns, row);
    if (target !== null) names.add(target);
  }
  return [...names];
}

/** Returns true for each type of requests to devices, indexed by type: the names of these types begin with `block_`. */
export function markRequestTypes({ types }: EventColumns): boolean[] {
  return Array.from({ length: 256 }, (_, type) => types.get(type)?.startsWith('block_') === true);
}

/** Returns the owners of the data that a request carries, with the number of bytes of each owner. */
export function collectOrigins({ origins }: EventColumns, row: number): (OriginOwner & { bytes: bigint })[] {
  const found: (OriginOwner & { bytes: bigint })[] = [];
  for (let at = findFirstAtLeast(origins.row, row); origins.row[at] === row; at++)
    found.push({ ...origins.owners[origins.owner[at]!]!, bytes: origins.bytes[at]! });
  return found;
}

/**
 * Returns the index of the first value of an ascending array that is at least `bound`; the array's length if there is
 * no such value.
 */
export function findFirstAtLeast(values: ArrayLike<number>, bound: number): number {
  let [from, to] = [0, values.length];
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle]! < bound) from = middle + 1;
    else to = middle;
  }
  return from;
}
