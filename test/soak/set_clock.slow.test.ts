// A process whose clock is set, and the conversion of the times that it reports to the machine's clock.
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import type { Loss } from '../../agent/recording/format/losses.ts';
import { temporaryFolder } from '../agent/recording/fixture.ts';
import { newSetClock, onTheMachinesClock } from './set_clock.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const SECOND_NS = 1_000_000_000n;

test('only the clocks of the started command are set', () => {
  const { command, set, spans } = newSetClock(folder.path);
  set(() => 1);
  expect(spans.at(-1)!.offByNs).toBe(2_500_000_000n);
  const before = Date.now();
  const [file, ...args] = [...command, process.execPath, '-p', 'Date.now()'];
  const told = Number(execFileSync(file!, args, { encoding: 'utf8' }));
  expect(told - 2500).toBeGreaterThanOrEqual(before);
  expect(told - 2500).toBeLessThanOrEqual(Date.now());
});

test('its report of a time agrees with the clock of the machine', () => {
  const offBy = fc.bigInt({ min: -2_500_000_000n, max: 2_500_000_000n });
  const lasts = fc.bigInt({ min: SECOND_NS / 2n, max: 10n * SECOND_NS });
  fc.assert(
    fc.property(
      fc.array(fc.record({ offBy, lasts }), { minLength: 1, maxLength: 8 }),
      fc.nat(),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.bigInt({ min: 0n, max: SECOND_NS }),
      (set, pick, share, lossNs) => {
        let fromNs = 100n * SECOND_NS;
        const spans = set.map(({ offBy, lasts }) => {
          const span = { fromNs, offByNs: offBy, lasts };
          fromNs += lasts;
          return span;
        });
        // The loss is reported by the clock of one span, and may have begun before that span.
        const span = spans[pick % spans.length]!;
        const toNs = span.fromNs + BigInt(Math.floor(Number(span.lasts) * share));
        const real = { fromNs: toNs - lossNs, toNs };
        const told: Loss = { cause: 'ring_full', eventType: 'sys_write', count: 1, fromNs: 0n, toNs: 0n };
        told.fromNs = real.fromNs + span.offByNs;
        told.toNs = real.toNs + span.offByNs;
        const found = onTheMachinesClock(told, spans);
        expect([found.fromNs <= real.fromNs, found.toNs >= real.toNs]).toEqual([true, true]);
        expect(found.toNs - found.fromNs).toBeLessThanOrEqual(lossNs + 5n * SECOND_NS);
      },
    ),
  );
});
