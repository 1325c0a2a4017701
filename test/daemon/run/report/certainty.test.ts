/** Tests how sure it is that calls got the events that belong to them, as a run's whole sequence of calls shows it. */
import fc from 'fast-check';
import { findLikelyAlignment, NO_SIZE } from '../../../../daemon/run/report/likely_alignment.ts';
import { buildNamePattern } from '../../../../daemon/run/report/names.ts';
import { times } from '../../../repeats.ts';
import { START } from '../../recorded.ts';
import { incidentOf } from '../planned.ts';
import { type Call, ran, saidOf } from '../reported.ts';

const MS = 1_000_000;
const COUNT = 40;
const range = (count: number) => Array.from({ length: count }, (_, at) => at);
/** Sizes that no two writes have in common, and that are not near each other's neighbours. */
const different = (at: number) => 200 + ((at * 37) % 101) * 11;
const equal = () => 256;

/** How likely each call is the recorded one whose number it got; -1 for none. */
function likelihoods(sizes: readonly number[], made: readonly number[], got: readonly number[]): number[] {
  const isSync = (all: readonly number[]) => Uint8Array.from(all, (size) => Number(size === NO_SIZE));
  const { likelihood } = findLikelyAlignment({
    planned: Float64Array.from(sizes),
    made: Float64Array.from(made),
    isPlannedSync: isSync(sizes),
    isMadeSync: isSync(made),
    taken: Int32Array.from(got),
  });
  return [...likelihood];
}

describe('the likelihood that a call is the recorded one that it was taken for', () => {
  test('is high for each call of an unchanged build, whatever its sizes are', () => {
    const size = fc.oneof(fc.constant(NO_SIZE), fc.integer({ min: 0, max: 1 << 20 }), fc.constantFrom(64, 256));
    fc.assert(
      fc.property(fc.array(size, { minLength: 1, maxLength: 300 }), (sizes) => {
        const found = likelihoods(sizes, sizes, range(sizes.length));
        expect(Math.min(...found)).toBeGreaterThan(0.95);
      }),
      { numRuns: times(60) },
    );
  });

  test('separates right from wrong matches if sizes differ, whichever calls are missing or new', () => {
    const edit = fc.record({ at: fc.nat(COUNT - 1), missing: fc.nat(6), added: fc.nat(3) });
    fc.assert(
      fc.property(fc.array(edit, { maxLength: 3 }), fc.nat(5), (edits, shift) => {
        const own = range(COUNT);
        for (const { at, missing, added } of edits) own.splice(at % own.length, missing, ...range(added).map(() => -1));
        const made = own.map((event, at) => (event < 0 ? 5000 + at * 997 : different(event)));
        // Some calls are taken for another call of the incident, as if the build had begun earlier or later.
        const got = own.map((event, at) => {
          const taken = event < 0 ? at : event + (at % 7 === 0 ? shift : 0);
          return taken < COUNT ? taken : -1;
        });
        let unsure = 0;
        for (const [at, likely] of likelihoods(range(COUNT).map(different), made, got).entries()) {
          // A new call in place of a missing one may be that, with another size.
          if (own[at] === -1 && got[at] !== -1) continue;
          if (got[at] === -1) expect(likely).toBe(0);
          else if (got[at] === own[at]) unsure += likely < 0.5 ? 1 : 0;
          else expect(likely).toBeLessThan(0.1);
        }
        // One that stands alone between missing and new ones may be a new one.
        expect(unsure).toBeLessThanOrEqual(2);
      }),
      { numRuns: times(100) },
    );
  });

  test('is shared among the calls that may be meant where sizes do not tell them apart', () => {
    // Three of forty are missing, and nothing says which: the last ones, if each got the event of its number.
    const found = likelihoods(range(COUNT).map(equal), range(COUNT - 3).map(equal), range(COUNT - 3));
    expect(found[0]).toBeGreaterThan(0.8);
    expect(found.at(-1)).toBeLessThan(0.2);
    for (const [at, likely] of found.slice(1).entries()) expect(likely).toBeLessThanOrEqual(found[at]! + 1e-9);
  });

  test('is half where each call is made twice', () => {
    const made = range(COUNT).flatMap((at) => [different(at), different(at)]);
    const found = likelihoods(
      range(COUNT).map(different),
      made,
      range(2 * COUNT).map((at) => (at % 2 ? -1 : at / 2)),
    );
    for (const likely of found.filter((_, at) => at % 2 === 0)) expect(likely).toBeCloseTo(0.5, 1);
  });

  test('is the same whether a long log is compared in parts or at once', () => {
    const long = 5000;
    const sizes = range(long).map((at) => 100 + ((at * 7919) % 1000));
    const [without, got] = [sizes.toSpliced(2500, 40), range(long).toSpliced(2500, 40)];
    const found = likelihoods(sizes, without, got);
    expect(Math.min(...found)).toBeGreaterThan(0.9);
    const shifted = likelihoods(sizes, without, range(without.length));
    expect(Math.max(...shifted.slice(2500))).toBeLessThan(0.1);
    expect(Math.min(...shifted.slice(0, 2500))).toBeGreaterThan(0.9);
  });
});

describe('the verdict', () => {
  const SLOW = 17;
  /** Forty writes to a log, of which one is slow. */
  const incidentWith = (size: (at: number) => number) =>
    incidentOf(
      range(COUNT).map((at) => ({
        at: START + BigInt(at) * 10n * BigInt(MS),
        duration: at === SLOW ? 500n * BigInt(MS) : 10_000n,
        ...{ file: '/data/log', requested: BigInt(size(at)), fd: 5 },
      })),
    );
  const call = (size: number, event: number, at: number): Call => ({
    ...{ at: at * 10 * MS, event, size, target: event === SLOW ? 500 * MS : 10_000 },
  });

  test('of a build whose calls all got the event after their own is not that the incident was replayed', () => {
    const calls = range(COUNT - 1).map((at) => call(different(at), at + 1, at));
    const { result, figures } = ran(incidentWith(different), calls);
    expect([result.verdict, figures.matched_by_duration]).toEqual(['diverged', expect.closeTo(0, 1)]);
    expect(figures.slowest[0]).toMatchObject({ event: SLOW, fate: 'displaced' });
  });

  test('is not that either if sizes do not say which calls are missing', () => {
    const calls = range(COUNT - 8).map((at) => call(equal(), at, at));
    const { result } = ran(incidentWith(equal), calls);
    expect(result.verdict).not.toBe('replayed');
  });

  test('of a build that makes other calls as well depends on how long these were to wait', () => {
    const extra = (target: number): Call => ({ at: 1, target, how: 'extra', size: 7 });
    const own = range(COUNT).map((at) => call(different(at), at, at));
    const verdict = (target: number) => ran(incidentWith(different), [...own, extra(target)]).result;
    expect(verdict(20 * MS).verdict).toBe('replayed');
    expect(verdict(100 * MS)).toMatchObject({
      verdict: 'partial',
      reasons: [expect.stringContaining('calls that the incident does not have were to wait as long as others')],
    });
  });

  test('knows which of several drawn names is which by their calls, if these differ', () => {
    const files = ['a', 'b'].map((kind) => ({ kind, path: `/data/seg-${kind === 'a' ? 1 : 2}` }));
    const incidentOfTwo = (size: (kind: string, at: number) => number) =>
      incidentOf(
        range(20).flatMap((at) =>
          files.map(({ kind, path }, number) => ({
            at: START + BigInt(at * 20 + number * 10) * BigInt(MS),
            duration: kind === 'a' && at === 10 ? 500n * BigInt(MS) : 10_000n,
            ...{ file: path, requested: BigInt(size(kind, at)), fd: 5 + number },
          })),
        ),
      );
    const said = saidOf(
      ...files.map(({ path }, stream) => ({
        ...{ kind: 'stream', op_class: 'write', path, role: 'node', stream, recorded_events: 20 },
      })),
    );
    const run = (size: (kind: string, at: number) => number, isExchanged: boolean) => {
      const calls = range(20).flatMap((at) =>
        files.map(({ kind }, number): Call => {
          const target = kind === 'a' && at === 10 ? 500 * MS : 10_000;
          const sizeOf = size(isExchanged ? files[1 - number]!.kind : kind, at);
          return {
            at: at * 20 + number,
            event: number * 20 + at,
            stream: number,
            size: sizeOf,
            target,
            standsIn: true,
          };
        }),
      );
      return ran(incidentOfTwo(size), calls, { said }).result;
    };
    const telling = (kind: string, at: number) => (kind === 'a' ? 100 : 3000) + at;
    expect(run(telling, false).verdict).toBe('replayed');
    expect(run(telling, true).verdict).toBe('diverged');
    expect(run(() => 64, false)).toMatchObject({
      verdict: 'partial',
      reasons: expect.arrayContaining([expect.stringContaining('the names of several files were generated')]),
    });
  });
});

test.each([
  ['/data/seg-0000001f.log', '/data/seg-#.log'],
  ['/tmp/550e8400-e29b-41d4-a716-446655440000/x7', '/tmp/#/x#'],
  ['/a/deadbeef/b12', '/a/deadbeef/b#'],
])('the pattern of %s is %s', (name, pattern) => expect(buildNamePattern(name)).toBe(pattern));
