/** Reads the few, rare records (definitions) into objects. Events go through decoder.ts instead. */
import type { Fields, RecordDefinition } from './define.ts';

type NumberOrText<F extends Fields> = {
  [K in keyof F]: F[K]['kind']['name'] extends 'text' ? string : number;
};

/**
 * Every u64 of a definition is an id, a time or an inode, all below 2^53 (ids by construction, CLOCK_BOOTTIME for
 * 104 days): larger ones lose their low bits, which only times do, by at most a few nanoseconds.
 */
export function readRecord<F extends Fields>(
  definition: RecordDefinition<F>,
  view: DataView,
  offset: number,
): NumberOrText<F> {
  const record: Record<string, number | string> = {};
  for (const { name, field, offset: fieldOffset, size } of definition.layout) {
    const at = offset + fieldOffset;
    if (field.kind.name === 'text') record[name] = readText(view, at, size);
    else if (size === 8) record[name] = view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
    else if (size === 4) record[name] = view.getUint32(at, true);
    else record[name] = view.getUint16(at, true);
  }
  return record as NumberOrText<F>;
}

/** A name may begin with U+FEFF: it is a character like any other. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Text up to the first NUL or the end of its room. */
export function readText(view: DataView, offset: number, size: number): string {
  const bytes = new Uint8Array(view.buffer, view.byteOffset + offset, size);
  const end = bytes.indexOf(0);
  return decoder.decode(end < 0 ? bytes : bytes.subarray(0, end));
}
