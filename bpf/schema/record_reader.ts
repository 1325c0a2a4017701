/** Reads definitions, which are rare, into objects. Events go through decoder.ts instead. */
import type { Fields, RecordDefinition } from './define.ts';

type NumberOrText<F extends Fields> = {
  [K in keyof F]: F[K]['kind']['name'] extends 'text' ? string : number;
};

/**
 * Returns a function that reads a record. The function returns the same object every time. So no garbage is created,
 * and the object stays alive: if a garbage collection found no object of this shape, V8 would discard the code for the
 * shape and compile it again.
 *
 * Every u64 of a definition is an id, a time or an inode, all below 2^53 (ids by construction, CLOCK_BOOTTIME for 104
 * days). Larger values lose their low bits. This happens only to times, which lose at most a few nanoseconds.
 */
export function recordReader<F extends Fields>(
  definition: RecordDefinition<F>,
): (view: DataView, offset: number) => Readonly<NumberOrText<F>> {
  const fields = definition.layout.map(({ name, field, offset, size }) => ({
    name,
    offset,
    size,
    isText: field.kind.name === 'text',
  }));
  const record: Record<string, number | string> = Object.fromEntries(
    fields.map(({ name, isText }) => [name, isText ? '' : 0]),
  );
  return (view, offset) => {
    for (const field of fields) {
      const at = offset + field.offset;
      record[field.name] = field.isText ? readText(view, at, field.size) : readNumber(view, at, field.size);
    }
    return record as NumberOrText<F>;
  };
}

function readNumber(view: DataView, at: number, size: number): number {
  if (size === 8) return view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
  if (size === 4) return view.getUint32(at, true);
  return view.getUint16(at, true);
}

/** A name may start with U+FEFF, which is a character like any other. */
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** Returns the text up to its first NUL, or up to the end of its field. */
export function readText(view: DataView, offset: number, size: number): string {
  const bytes = new Uint8Array(view.buffer, view.byteOffset + offset, size);
  const end = bytes.indexOf(0);
  return decoder.decode(end < 0 ? bytes : bytes.subarray(0, end));
}
