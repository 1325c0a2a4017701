/** One event per line, in the API's own NDJSON. */
import { jsonRows } from '../../store/blocks/event_json.ts';
import type { Encoder } from '../encoder.ts';

export function ndjsonEncoder(): Encoder {
  const { pieces, rest } = jsonRows('\n');
  return {
    head: () => '',
    *pieces(scanned) {
      // The encoder reuses the memory of a piece, which an output may still have to write.
      for (const piece of pieces(scanned)) yield Buffer.from(piece);
    },
    tail: rest,
  };
}
