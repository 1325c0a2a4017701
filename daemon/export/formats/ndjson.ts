/** One event a line, as the API's own NDJSON. */
import { jsonRows } from '../../store/event_json.ts';
import type { Encoder } from '../encoder.ts';

export function ndjsonEncoder(): Encoder {
  const { pieces, rest } = jsonRows('\n');
  return {
    head: () => '',
    *pieces(scanned) {
      // Its memory is used again, and an output may still have it to write.
      for (const piece of pieces(scanned)) yield Buffer.from(piece);
    },
    tail: rest,
  };
}
