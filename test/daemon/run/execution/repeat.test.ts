/** Tests the search for the smallest latency at which a command fails, with simulated commands. */
import fc from 'fast-check';
import { type LatencyRange, RESOLUTION_NS, repeatRun } from '../../../../daemon/run/execution/repeat.ts';
import type { Run } from '../../../../daemon/run/execution/replay_run.ts';

/** A run that ends with this code; undefined means that it could not be started. */
function ranWith(code: number | undefined, extraNs = 0): Run {
  const ended = code === undefined ? null : { code };
  const result = { ended, verdict: 'replayed', gates: [], settings: { extra_latency_ns: extraNs } };
  return { result, exitCode: code ?? 69 } as unknown as Run;
}

function repeat(codeOf: (extraNs: number, seed: bigint) => number | undefined, times: number, range?: LatencyRange) {
  const start = async (seed: bigint, extraNs: number) => ranWith(codeOf(extraNs, seed), extraNs);
  return repeatRun(start, { times, seed: 2n ** 64n - 1n, extraNs: 7, range, onAttempt: () => {} });
}

test('the smallest failing latency is found, and no attempt is made twice', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.nat(1e9),
      fc.nat(1e9),
      fc.nat(1e9),
      fc.integer({ min: 1, max: 50 }),
      async (a, b, at, times) => {
        const [lowNs, highNs] = [Math.min(a, b), Math.max(a, b)];
        const { repeated, run } = await repeat((ns) => (ns >= at ? 1 : 0), times, { lowNs, highNs });
        const { attempts, passes_ns, fails_ns } = repeated;
        expect(attempts.length).toBeLessThanOrEqual(times);
        const tried = attempts.map(({ extra_latency_ns }) => extra_latency_ns);
        expect(new Set(tried).size).toBe(tried.length);
        expect(fails_ns === null).toBe(highNs < at);
        if (fails_ns !== null) expect(fails_ns).toBeGreaterThanOrEqual(at);
        if (passes_ns !== null) expect(passes_ns).toBeLessThan(at);
        if (times >= 34 && highNs >= at && lowNs < at)
          expect(fails_ns! - passes_ns!).toBeLessThanOrEqual(RESOLUTION_NS);
        expect(run.result.settings.extra_latency_ns).toBe(fails_ns ?? passes_ns);
      },
    ),
  );
});

test('a search ends with a run that is not faithful enough, which neither passes nor fails', async () => {
  const unfaithful = (extraNs: number): Run => {
    const run = ranWith(0, extraNs);
    const gates = [{ gate: '--require partial', met: false, detail: 'it was diverged' }];
    return { ...run, exitCode: 124, result: { ...run.result, gates } };
  };
  const start = async (_seed: bigint, extraNs: number) => (extraNs < 10 ? unfaithful(extraNs) : ranWith(1, extraNs));
  const options = { times: 9, seed: 1n, extraNs: 0, range: { lowNs: 0, highNs: 10 }, onAttempt: () => {} };
  const { repeated, run } = await repeatRun(start, options);
  expect(repeated).toMatchObject({ passes_ns: null, fails_ns: 10, unknown_ns: 0 });
  expect([repeated.attempts.length, run.exitCode]).toEqual([2, 124]);
});

test('without a range every attempt has its own seed, and the first that failed is shown', async () => {
  const { repeated, run } = await repeat((_, seed) => (seed === 1n || seed === 2n ? Number(seed) : 0), 5);
  expect(repeated.attempts.map(({ seed, code }) => [seed, code])).toEqual([
    [2n ** 64n - 1n, 0],
    [0n, 0],
    [1n, 1],
    [2n, 2],
    [3n, 0],
  ]);
  expect(run.exitCode).toBe(1);
});

test('if the command could not be started there is no other attempt', async () => {
  const { repeated, run } = await repeat(() => undefined, 5, { lowNs: 0, highNs: 10 });
  expect([repeated.attempts.length, repeated.fails_ns, run.exitCode]).toEqual([1, null, 69]);
});
