import { eventPieces } from '../store/event.ts';
import type { Encoder, EventWriter } from './format.ts';
import type { Output } from './output.ts';

/** Encodes a block piece by piece, so that a slow reader holds up little. */
export function streamWriter(output: Output, encoder: Encoder): EventWriter {
  let begun = false;
  return {
    async write(scanned) {
      if (!begun) await output.write(encoder.head());
      begun = true;
      for (const events of eventPieces(scanned)) await output.write(encoder.events(events));
    },
    finish: () => output.write(encoder.tail()),
    close: output.close,
    bytes: output.bytes,
  };
}
