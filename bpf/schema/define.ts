import { type ApiTypes, type CType, type Field, type Kind, ORIGIN_SLOTS, ORIGINS_MAX } from './kinds.ts';

export type Fields = Readonly<Record<string, Field>>;

/** Returns the field's name in the API. */
export function getApiName(fieldName: string, field: Fields[string]): string {
  return field.kind.columnName ?? fieldName;
}

/** A record as the kernel side writes it, with its fields in the order of their bytes. */
export interface RecordDefinition<F extends Fields = Fields> {
  readonly name: string;
  /** Id in the first two bytes of every record. An id is never reused for another meaning. */
  readonly id: number;
  readonly doc: string;
  readonly fields: F;
  readonly layout: readonly FieldLayout[];
  readonly size: number;
  /** Size without origins. The number of origins differs between records. */
  readonly sizeMin: number;
}

export interface FieldLayout {
  readonly name: string;
  readonly field: Field;
  readonly offset: number;
  readonly size: number;
}

const C_SIZE: Record<CType, number> = {
  __u8: 1,
  __u16: 2,
  __u32: 4,
  __s32: 4,
  __u64: 8,
  __s64: 8,
  char: 1,
  'struct event_origin': 32,
};

/**
 * Lays out the fields as C does and rejects holes: a program may forget to zero a hole, and stale kernel memory must
 * never reach user space.
 */
export function defineRecord<const F extends Fields>(
  name: string,
  id: number,
  doc: string,
  fields: F,
): RecordDefinition<F> {
  const layout: FieldLayout[] = [];
  let offset = 0;
  for (const [fieldName, field] of Object.entries(fields)) {
    const elementSize = C_SIZE[field.kind.c.type];
    const alignment = Math.min(elementSize, 8);
    if (offset % alignment !== 0) throw new Error(`${name}.${fieldName} would leave a hole at offset ${offset}`);
    const size = elementSize * field.kind.c.count;
    layout.push({ name: fieldName, field, offset, size });
    offset += size;
  }
  if (offset % 8 !== 0) throw new Error(`${name} is ${offset} bytes long, not a multiple of 8`);
  const last = layout.at(-1)!;
  const sizeMin = last.field.kind.c.type === 'struct event_origin' ? last.offset : offset;
  return { name, id, doc, fields, layout, size: offset, sizeMin };
}

/** Size of `struct event_origin` in bytes. */
export const ORIGIN_SIZE = C_SIZE['struct event_origin'];
/** Offsets of the members of `struct event_origin`. */
export const ORIGIN_OFFSETS = { context_id: 0, process_id: 8, time_ns: 16, bytes: 24, flags: 28 } as const;
export { ORIGIN_SLOTS, ORIGINS_MAX };

type ApiValue<K extends Kind> = K extends Kind<'label', infer Label> ? Label : ApiTypes[K['api']];

/** Names and types of the fields in the API, inferred from the definition. */
export type ApiOf<F extends Fields> = {
  [K in keyof F as F[K]['kind']['api'] extends 'none' ? never : K]: ApiValue<F[K]['kind']>;
};
