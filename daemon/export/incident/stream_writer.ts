import type { Encoder, EventWriter } from '../encoder.ts';
import type { Output } from '../output.ts';

export function streamWriter(output: Output, encoder: Encoder): EventWriter {
  let begun = false;
  return {
    async write(scanned) {
      if (!begun) await output.write(encoder.head());
      begun = true;
      for (const piece of encoder.pieces(scanned)) await output.write(piece);
    },
    finish: () => output.write(encoder.tail()),
    close: output.close,
    bytes: output.bytes,
  };
}
