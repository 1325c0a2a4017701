/** Makes records as the kernel lays them out, from the schema: fields that are not given are zero. */
import type { RecordDefinition } from '../../../bpf/schema/define.ts';
import { ORIGIN_OFFSETS, ORIGIN_SIZE } from '../../../bpf/schema/define.ts';

export interface Origin {
  context_id?: number;
  process_id?: number;
  time_ns?: number;
  bytes?: number;
  flags?: number;
}

export type Values = Readonly<Record<string, number | bigint | string | Uint8Array | readonly Origin[]>>;

const encoder = new TextEncoder();

/** A record has as many origins as it is given; 16 when it is given none. */
export function recordBytes(
  definition: RecordDefinition,
  values: Values = {},
  text: Uint8Array = new Uint8Array(),
): Uint8Array {
  const { origins } = values;
  const size = Array.isArray(origins) ? definition.sizeMin + origins.length * ORIGIN_SIZE : definition.size;
  const bytes = new Uint8Array(size + text.length);
  bytes.set(text, size);
  const { layout } = definition;
  const type = {
    [layout[0]!.name]: definition.id,
    ...('text_size' in definition.fields && { text_size: text.length }),
  };
  for (const [name, value] of Object.entries({ ...type, ...values })) {
    const place = layout.find((field) => field.name === name);
    if (place?.size === 0) continue;
    if (!place) throw new Error(`${definition.name} has no field ${name}`);
    put(bytes.subarray(place.offset, place.offset + place.size), place.field.kind.c.type, value);
  }
  return bytes;
}

function put(place: Uint8Array, type: string, value: Values[string]): void {
  const view = new DataView(place.buffer, place.byteOffset, place.byteLength);
  if (typeof value === 'string') place.set(encoder.encode(value).subarray(0, place.length));
  else if (value instanceof Uint8Array) place.set(value);
  else if (typeof value === 'object')
    for (const [slot, origin] of value.entries()) putOrigin(view, slot * ORIGIN_SIZE, origin);
  else if (type === '__u64' || type === '__s64') view.setBigUint64(0, BigInt.asUintN(64, BigInt(value)), true);
  else if (type === '__u16') view.setUint16(0, Number(value), true);
  else view.setUint32(0, Number(value), true);
}

function putOrigin(view: DataView, at: number, { context_id, process_id, time_ns, bytes, flags }: Origin): void {
  view.setBigUint64(at + ORIGIN_OFFSETS.context_id, BigInt(context_id ?? 0), true);
  view.setBigUint64(at + ORIGIN_OFFSETS.process_id, BigInt(process_id ?? 0), true);
  view.setBigUint64(at + ORIGIN_OFFSETS.time_ns, BigInt(time_ns ?? 0), true);
  view.setUint32(at + ORIGIN_OFFSETS.bytes, bytes ?? 0, true);
  view.setUint32(at + ORIGIN_OFFSETS.flags, flags ?? 0, true);
}

/** Frames of `{u32 size, u32 zero, payload, padding to 8}`, as `RingReader.drain()` writes them. */
export function framed(records: readonly Uint8Array[]): Uint8Array {
  const sizes = records.map(({ length }) => 8 + Math.ceil(length / 8) * 8);
  const bytes = new Uint8Array(sizes.reduce((sum, size) => sum + size, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  records.forEach((record, i) => {
    view.setUint32(at, record.length, true);
    bytes.set(record, at + 8);
    at += sizes[i]!;
  });
  return bytes;
}
