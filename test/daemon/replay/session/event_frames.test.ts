/** Tests the writing of events with their replay fields: equal to JSON that is put together otherwise, for any numbers. */
import fc from 'fast-check';
import { formatFrame } from '../../../../daemon/base/sse.ts';
import { FRAME, nativeClock } from '../../../../daemon/replay/clock/player.ts';
import { encodeSteppedEvents, writeEvents } from '../../../../daemon/replay/session/stream.ts';
import { pageOf, replayedJson } from '../event_pages.ts';

const INT64_MAX = 2n ** 63n - 1n;
const BEFORE = 5;

const events = fc.array(
  fc.record({
    json: fc
      .dictionary(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }))
      .map((fields) => ({ a: 1, ...fields })),
    startNs: fc.oneof(fc.maxSafeNat(), fc.constantFrom(0, 9, 10, 2 ** 53 - 1)),
    durationNs: fc.oneof(fc.nat(), fc.maxSafeNat()),
    dueNs: fc.oneof(fc.bigInt({ min: 0n, max: INT64_MAX }), fc.constantFrom(0n, 2n ** 53n + 1n, INT64_MAX)),
  }),
  { minLength: 1, maxLength: 20 },
);

function framesDue(dueNs: readonly bigint[]): BigInt64Array {
  const frames = new BigInt64Array(dueNs.length * FRAME.length);
  for (const [i, due] of dueNs.entries()) frames[i * FRAME.length + FRAME.due] = due;
  return frames;
}

test('frames are those of other text, in any room, and no byte outside of it is touched', () => {
  const timeouts = fc.option(fc.bigInt({ min: 0n, max: 2n ** 64n }));
  fc.assert(
    fc.property(events, timeouts, fc.nat(3000), fc.maxSafeNat(), fc.nat(2 ** 40), (all, timeoutNs, room, id, first) => {
      const texts = all.map(({ json }) => JSON.stringify(json));
      const page = pageOf(texts, first);
      for (const [at, { startNs, durationNs }] of all.entries()) {
        page.startNs[at] = startNs;
        page.durationNs[at] = durationNs;
      }
      const frames = framesDue(all.map(({ dueNs }) => dueNs));
      const memory = Buffer.alloc(BEFORE + room + BEFORE, '#');
      const firstId = Math.min(id, Number.MAX_SAFE_INTEGER - all.length);
      const to = memory.subarray(0, BEFORE + room);
      const count = writeEvents({ page, at: 0, frames, timeoutNs }, firstId, to, BEFORE);
      let end = BEFORE;
      for (let at = 0; at < count; at++) {
        const json = replayedJson(page, at, { json: texts[at]!, dueNs: all[at]!.dueNs, timeoutNs });
        const frame = Buffer.from(formatFrame('event', json, firstId + at));
        const place = frames.subarray(at * FRAME.length, (at + 1) * FRAME.length);
        expect(place[FRAME.start]).toBe(BigInt(end));
        expect(memory.subarray(end, end + frame.length).toString()).toBe(frame.toString());
        expect(place[FRAME.size]).toBe(BigInt(frame.length));
        expect(Number(place[FRAME.latenessAt])).toBe(frame.lastIndexOf('"lateness_ns":') + '"lateness_ns":'.length);
        end += frame.length;
      }
      expect(memory.toString('latin1', 0, BEFORE) + memory.toString('latin1', BEFORE + room)).toBe(
        '#'.repeat(2 * BEFORE),
      );
      // What does not fit would nearly have filled the rest.
      if (count < all.length) expect(room + BEFORE - end).toBeLessThan(texts[count]!.length * 4 + 400);
    }),
    { numRuns: 500 },
  );
});

test('the events of a step are the same, without a frame', () => {
  fc.assert(
    fc.property(events, (all) => {
      const texts = all.map(({ json }) => JSON.stringify(json));
      const page = pageOf(texts, 7);
      const stepped = encodeSteppedEvents(page, 12n, 1_000_000n);
      const expected = texts.map((json, at) => replayedJson(page, at, { json, dueNs: 12n, timeoutNs: 1_000_000n }));
      expect(stepped).toEqual(expected);
    }),
  );
});

test('columns that do not agree are refused', () => {
  const page = pageOf(['{"a":1}', '{"b":2}']);
  const to = Buffer.alloc(4096);
  const write = (changed: object, at = 0, count = 2, start = 0) =>
    nativeClock.writeEvents({ ...page, ...changed }, at, new BigInt64Array(count * FRAME.length), null, 1, to, start);
  expect(write({})).toBe(2);
  expect(write({}, 1, 1)).toBe(1);
  const refused = [
    () => write({}, 1, 2),
    () => write({}, -1),
    () => write({}, 0, 2, to.length + 1),
    () => write({}, 0, 2, -1),
    () => write({ ends: Uint32Array.of(7, 15) }),
    () => write({ ends: Uint32Array.of(7, 7) }),
    () => write({ ends: Uint32Array.of(7) }),
    () => write({ startNs: new Float64Array(1) }),
    () => write({ durationNs: new Float64Array(0) }),
    () => write({ isOwn: new Uint8Array(1) }),
    () => write({ bytes: new Float64Array(9) }),
  ];
  for (const call of refused) expect(call).toThrow('wrong arguments');
});
