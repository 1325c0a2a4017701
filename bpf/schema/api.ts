/** The API side of the contract: the form of an event in JSON. */
import { z } from 'zod';
import { blockIo } from './block_io.ts';
import type { commonFields } from './common.ts';
import { type ApiOf, type Fields, getApiName } from './define.ts';
import type { EventDefinition } from './index.ts';
import type { ApiTypes, Kind } from './kinds.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES, FILE_KINDS } from './owner.ts';
import { sysSync } from './sys_sync.ts';
import { sysWrite } from './sys_write.ts';

/** A 64-bit integer: a bigint in the code, and an exact JSON integer in requests and answers. */
export const int64 = () => z.bigint().meta({ type: 'integer', format: 'int64' });

/** Adds a description to a schema; the OpenAPI document shows it. */
export const described = <Schema extends z.ZodType>(schema: Schema, description: string) =>
  schema.meta({ description });

const originSchema = z.object({
  service_name: z.string(),
  transaction_id: z.string().nullable(),
  bytes: int64(),
});

const queuerSchema = originSchema.omit({ bytes: true });

const SCHEMAS: { [Api in keyof ApiTypes]: (kind: Kind) => z.ZodType<ApiTypes[Api]> } = {
  natural: () => z.int().nonnegative(),
  integer: () => z.int(),
  int64,
  int64_or_null: () => int64().nullable(),
  text: () => z.string(),
  text_or_null: () => z.string().nullable(),
  label: ({ labels }) => z.enum([...labels!.values()]),
  queuer_or_null: () => queuerSchema.nullable(),
  origins: () => z.array(originSchema),
  none: () => z.never(),
};

export const attributionSchema = z.object({
  source: z.enum(ATTRIBUTION_SOURCES),
  quality: z.enum(ATTRIBUTION_QUALITIES),
});

/** Fields that every event has in addition to those of its record. */
export const derivedFields = {
  event_id: described(z.string(), 'opaque, unique across nodes, stable for ever'),
  timestamp: z.string().meta({
    description: 'timestamp_ns as RFC 3339, in UTC, with all nine digits of the nanoseconds',
    format: 'date-time',
  }),
  service_name: described(z.string(), 'service that the event belongs to'),
  transaction_id: described(z.string().nullable(), 'transaction that caused it, or null'),
  trace_id: described(z.string().nullable(), 'W3C trace id, 32 hex digits, or null'),
  span_id: described(z.string().nullable(), '16 hex digits, or null'),
  attribution: described(attributionSchema, '`{source, quality}`: how its owner was learned, and how sure that is'),
  node: described(z.string(), 'host that recorded it'),
  error: described(
    z.string().nullable(),
    'name of the errno when result is negative, such as "ENOSPC", or null; "EINTR" also for -512, -513, -514 and -516, with which the kernel says that it makes the call again after a signal',
  ),
};

function buildShape(fields: Fields): Record<string, z.ZodType> {
  return Object.fromEntries(
    Object.entries(fields)
      .filter(([, field]) => field.kind.api !== 'none')
      .flatMap(([name, field]) => [
        [getApiName(name, field), SCHEMAS[field.kind.api](field.kind).meta({ description: field.doc })] as const,
        ...(field.kind.name === 'file' ? [['file_kind', z.enum(FILE_KINDS)] as const] : []),
      ]),
  );
}

function buildEventSchema(event: EventDefinition) {
  return z
    .object({ event_type: z.literal(event.name), ...derivedFields, ...buildShape(event.fields) })
    .meta({ id: event.name, description: event.doc });
}

export const apiEventSchema = z.discriminatedUnion('event_type', [
  buildEventSchema(sysWrite),
  buildEventSchema(blockIo),
  buildEventSchema(sysSync),
]);

type Derived = z.infer<z.ZodObject<typeof derivedFields>>;
type Common = Derived & ApiOf<typeof commonFields>;
type OwnFields<F extends Fields> = ApiOf<Omit<F, keyof typeof commonFields>>;
interface OfFile {
  file: string | null;
  file_kind: (typeof FILE_KINDS)[number];
}

export type SysWriteEvent = Common & { event_type: 'sys_write' } & OfFile &
  Omit<OwnFields<typeof sysWrite.fields>, 'file_id'>;
export type SysSyncEvent = Common & { event_type: 'sys_sync' } & OfFile &
  Omit<OwnFields<typeof sysSync.fields>, 'file_id'>;
export type BlockIoEvent = Common & { event_type: 'block_io' } & OwnFields<typeof blockIo.fields>;

/** An event as the API returns it; its 64-bit integers are bigints in the code, and exact JSON integers in answers. */
export type ApiEvent = SysWriteEvent | BlockIoEvent | SysSyncEvent;
