/** Any calls under any plan: what a call gets is its own, in all modes, and the runner reads nothing out of bounds. */
import fc from 'fast-check';
import { EVENT_FLAGS } from '../../../daemon/run/format/plan_file.ts';
import { MATCH_KINDS } from '../../../daemon/run/format/report_file.ts';
import { times } from '../../repeats.ts';
import { endMatching, type MODES, match, startMatching } from './match_driver.ts';

beforeAll(startMatching);
afterAll(endMatching);

const roleOf = (comm: string) => comm.replaceAll(/\d+/g, '#');

test('a call gets an event of its own file and kind, which no other gets, or a duration of its file', () => {
  const files = ['/data/log', '/data/wal'];
  const comms = ['db', 'worker', 'http-1', 'http-2'];
  const size = fc.constantFrom(0, 10, 184, 192, 1_000_000);
  const place = { path: fc.constantFrom(...files), comm: fc.constantFrom(...comms) };
  const anyThread = fc.record({
    ...place,
    op: fc.constantFrom('write' as const, 'fsync' as const),
    isInOrder: fc.boolean(),
    sizes: fc.array(fc.record({ size, flags: fc.constantFrom(0, 0, EVENT_FLAGS.ruled_by_thread) }), { maxLength: 20 }),
  });
  const anyCall = fc.record({
    ...{ file: fc.constantFrom(...files, '/elsewhere'), comm: fc.constantFrom(...comms, 'other') },
    ...{ isSync: fc.boolean(), tid: fc.integer({ min: 1, max: 4 }), size },
  });
  const modes = fc.constantFrom<keyof typeof MODES>('auto', 'align', 'ordinal', 'dist');
  const property = fc.property(
    fc.array(anyThread, { minLength: 1, maxLength: 6 }),
    fc.array(anyCall, { maxLength: 80 }),
    modes,
    fc.constantFrom('none' as const, 'class' as const),
    (recorded, calls, mode, unknown) => {
      let target = 0;
      const threads = recorded.map(({ sizes, ...rest }) => ({
        ...rest,
        calls: sizes.map((call) => ({ ...call, targetNs: ++target })),
      }));
      const events = threads.flatMap(({ calls: its, ...of }) => its.map(({ targetNs }) => ({ ...of, targetNs })));
      const used = new Set<number>();
      match(threads, calls, mode, 1, unknown).forEach(({ how, event, target }, i) => {
        const call = calls[i]!;
        const ofFile = events.filter(({ path, op }) => path === call.file && (op === 'fsync') === call.isSync);
        const ofRole = ofFile.filter(({ comm }) => roleOf(comm) === roleOf(call.comm));
        if (event >= 0) {
          expect(used.has(event)).toBe(false);
          used.add(event);
          expect(ofFile).toContainEqual(events[event]);
          expect(target).toBe(events[event]!.targetNs);
        } else if (how === MATCH_KINDS.distribution || how === MATCH_KINDS.extra) {
          const alike = how === MATCH_KINDS.distribution && ofRole.length > 0 ? ofRole : ofFile;
          expect([0, ...alike.map(({ targetNs }) => targetNs)]).toContain(target);
        } else {
          expect([MATCH_KINDS.no_stream, MATCH_KINDS.class]).toContain(how);
          expect(ofFile).toEqual([]);
        }
      });
    },
  );
  fc.assert(property, { numRuns: times(40) });
}, 120_000);
