/**
 * Defines the meaning of a field once: how the kernel side lays it out (`c`), how the recording stores it (`columns`)
 * and how the API presents it (`api`). A field has a kind and never declares a C type itself, so the three always
 * agree.
 */

/** Type of a column's values in memory and on disk; the number in the name is the number of bits. */
export type Storage = 'u8' | 'u16' | 'u32' | 'i32' | 'u64' | 'i64';

/** `delta`: neighbouring values are close (times), so the recording stores differences. */
export type Encoding = 'plain' | 'delta';

export type CType = '__u8' | '__u16' | '__u32' | '__s32' | '__u64' | '__s64' | 'char' | 'struct event_origin';

/** Source of a column's value: the bytes of the record, or a reference that the agent resolves. */
export type ColumnSource = 'value' | 'boot_time' | 'text' | 'context' | 'process' | 'file' | 'queuer' | 'origins';

export interface ColumnSpec {
  /** Suffix that is appended to the field's name, or to `Kind.columnName`. */
  suffix: string;
  storage: Storage;
  encoding: Encoding;
}

/** Service and transaction of the task that queued a request. */
export interface Queuer {
  service_name: string;
  transaction_id: string | null;
}

/** One owner of a request's data, with the number of bytes that belong to the owner. */
export interface Origin {
  service_name: string;
  transaction_id: string | null;
  bytes: bigint;
}

/**
 * Types of values in the API; api.ts has the schemas. Kinds refer to them by name, because the agent, which needs no
 * schemas, would pay 14 MB of memory per thread for zod.
 */
export interface ApiTypes {
  natural: number;
  integer: number;
  int64: bigint;
  int64_or_null: bigint | null;
  text: string;
  text_or_null: string | null;
  /** One of the kind's labels. */
  label: string;
  queuer_or_null: Queuer | null;
  origins: Origin[];
  /** The field is not in the API. */
  none: never;
}

export interface Kind<Api extends keyof ApiTypes = keyof ApiTypes, Label extends string = string> {
  readonly name: string;
  readonly c: { readonly type: CType; readonly count: number };
  readonly source: ColumnSource;
  /**
   * Set if the column and the field have different names: the column of a reference contains the value to which the
   * field refers.
   */
  readonly columnName?: string;
  /** Empty for a field that only the agent reads. */
  readonly columns: readonly ColumnSpec[];
  readonly api: Api;
  /** For an enumeration, maps the number in the record to the word in the API. */
  readonly labels?: ReadonlyMap<number, Label>;
  /** The value that means "unknown"; the API returns null for it. */
  readonly unknown?: bigint;
}

export interface Field {
  readonly kind: Kind;
  readonly doc: string;
}

const MAX_U64 = 2n ** 64n - 1n;

function value(storage: Storage, encoding: Encoding = 'plain'): ColumnSpec[] {
  return [{ suffix: '', storage, encoding }];
}

function scalar<Api extends keyof ApiTypes>(name: string, type: CType, columns: ColumnSpec[], api: Api): Kind<Api> {
  return { name, c: { type, count: 1 }, source: 'value', columns, api };
}

export const u16 = (doc: string) => ({ doc, kind: scalar('u16', '__u16', value('u16'), 'natural') });
export const u32 = (doc: string) => ({ doc, kind: scalar('u32', '__u32', value('u32'), 'natural') });
export const s32 = (doc: string) => ({ doc, kind: scalar('s32', '__s32', value('i32'), 'integer') });
export const u64 = (doc: string) => ({ doc, kind: scalar('u64', '__u64', value('u64'), 'int64') });
export const s64 = (doc: string) => ({ doc, kind: scalar('s64', '__s64', value('i64'), 'int64') });

/** A number that the kernel side could not always determine: all ones in the record, null in the API. */
export const optional_u64 = (doc: string) => ({
  doc,
  kind: { ...scalar('optional_u64', '__u64', value('u64'), 'int64_or_null'), unknown: MAX_U64 },
});

/** Time in nanoseconds: CLOCK_BOOTTIME in the record, wall-clock time in the recording and the API. */
export const boot_time = (doc: string) => ({
  doc,
  kind: { ...scalar('boot_time', '__u64', value('u64', 'delta'), 'int64'), source: 'boot_time' as const },
});

/** NUL-padded text, stored as a dictionary id. */
export const text = (size: number, doc: string) => ({
  doc,
  kind: {
    name: 'text' as const,
    c: { type: 'char' as const, count: size },
    source: 'text' as const,
    columns: value('u32'),
    api: 'text' as const,
  },
});

export function label<const Labels extends Record<string, number>>(labels: Labels, doc: string) {
  const words = Object.keys(labels) as [keyof Labels & string, ...(keyof Labels & string)[]];
  return {
    doc,
    kind: {
      ...scalar('label', '__u32', value('u16'), 'label'),
      labels: new Map(words.map((word) => [labels[word]!, word] as const)),
    },
  };
}

/**
 * Reference to a context definition: the owner that caused the event. `attribution` shows how the owner was determined.
 */
export const context = (doc: string) => ({
  doc,
  kind: {
    name: 'context',
    c: { type: '__u64' as const, count: 1 },
    source: 'context' as const,
    columnName: 'context',
    columns: [
      { suffix: '', storage: 'u32', encoding: 'plain' },
      { suffix: '_source', storage: 'u8', encoding: 'plain' },
      { suffix: '_quality', storage: 'u8', encoding: 'plain' },
    ] satisfies ColumnSpec[],
    api: 'none' as const,
  },
});

/** Reference to a process definition; the recording stores the service name that the agent determined for it. */
export const process = (doc: string) => ({
  doc,
  kind: {
    name: 'process',
    c: { type: '__u64' as const, count: 1 },
    source: 'process' as const,
    columnName: 'service',
    columns: value('u32'),
    api: 'none' as const,
  },
});

/** Reference to a file definition: path and kind. */
export const file = (doc: string) => ({
  doc,
  kind: {
    name: 'file',
    c: { type: '__u64' as const, count: 1 },
    source: 'file' as const,
    columnName: 'file',
    columns: value('u32'),
    api: 'text_or_null' as const,
  },
});

/** A field that only the agent uses: it has no column and is not in the API. */
export const internal = (type: '__u16' | '__u32' | '__u64', doc: string) => ({
  doc,
  kind: { name: 'internal', c: { type, count: 1 }, source: 'value' as const, columns: [], api: 'none' as const },
});

/**
 * Service and transaction of the task that queued a request; this task need not be the owner of the request's data. The
 * field takes no room in the record, because the record's common fields name the task. It has separate columns, because
 * the columns of the common fields name the task only if it owns the data.
 */
export const queuer = (doc: string) => ({
  doc,
  kind: {
    name: 'queuer',
    c: { type: '__u64' as const, count: 0 },
    source: 'queuer' as const,
    columns: [
      { suffix: '_service', storage: 'u32', encoding: 'plain' },
      { suffix: '_context', storage: 'u32', encoding: 'plain' },
    ] satisfies ColumnSpec[],
    api: 'queuer_or_null' as const,
  },
});

/** Maximum number of owners, each a (service, transaction) pair, that are named for one request. */
export const ORIGINS_MAX = 4;

/**
 * Maximum number of (process, context) pairs in one request's record; the agent merges pairs that belong to the same
 * owner.
 */
export const ORIGIN_SLOTS = 16;

const originColumns = Array.from({ length: ORIGINS_MAX }, (_, slot) => [
  { suffix: `_${slot}_service`, storage: 'u32', encoding: 'plain' },
  { suffix: `_${slot}_context`, storage: 'u32', encoding: 'plain' },
  { suffix: `_${slot}_bytes`, storage: 'u64', encoding: 'plain' },
]).flat() as ColumnSpec[];

/** Owners of the data that a request carries, one slot per owner. */
export const origins = (doc: string) => ({
  doc,
  kind: {
    name: 'origins',
    c: { type: 'struct event_origin' as const, count: ORIGIN_SLOTS },
    source: 'origins' as const,
    columns: originColumns,
    api: 'origins' as const,
  },
});
