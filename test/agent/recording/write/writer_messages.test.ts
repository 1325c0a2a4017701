/** Tests that messages between the two threads of a writer arrive as they were sent. */
import fc from 'fast-check';
import type { Batch, ContextRow } from '../../../../agent/recording/write/batch.ts';
import { decodeBatch, type ToWriterThread, toMessage } from '../../../../agent/recording/write/writer_thread.ts';

const text = fc.option(fc.string({ unit: 'binary' }));
const contextRow = fc.tuple(fc.nat(2 ** 32), text, text, text) as fc.Arbitrary<ContextRow>;

test('a batch is unchanged by the transfer, with any characters in its contexts', () => {
  fc.assert(
    fc.property(fc.nat(2 ** 32), fc.array(contextRow), (firstId, entries) => {
      const batch: Batch = {
        rows: [],
        names: { firstId: 1, entries: ['dd'] },
        files: { firstId: 1, entries: [] },
        contexts: { firstId, entries: [...entries, [1, 'lone \ud800 \udc00', null, '\u2028']] },
        losses: [{ cause: 'ring_full', eventType: null, count: 1, fromNs: 2n ** 63n - 1n, toNs: 2n ** 64n - 1n }],
        clockSteps: [],
        unended: undefined,
        nowNs: 5n,
      };
      const sent = structuredClone(toMessage(batch)) as Extract<ToWriterThread, { kind: 'write' }>;
      expect(decodeBatch(sent)).toEqual(batch);
    }),
  );
});
