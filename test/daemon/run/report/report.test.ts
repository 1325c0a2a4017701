/** Tests a run's report, and how incomplete or foreign report files are handled. */
import fc from 'fast-check';
import { MATCH_KINDS, NONE, reportCall, reportHeader } from '../../../../daemon/run/format/report_file.ts';
import { computeKsDistance, quantile } from '../../../../daemon/run/report/figures.ts';
import { readReport } from '../../../../daemon/run/report/read_report.ts';
import { formatSummaryLines } from '../../../../daemon/run/report/summary.ts';
import { START } from '../../recorded.ts';
import { incidentOf } from '../planned.ts';
import { type Call, ran, reportBytes, saidOf } from '../reported.ts';

const MS = 1_000_000;

/** Thirty calls of one thread, 1 to 30 ms long, whose sizes tell them apart. */
const DURATIONS = Array.from({ length: 30 }, (_, at) => (at + 1) * MS);
const sizeOf = (at: number) => 64 * (at + 1);
const incident = incidentOf(
  DURATIONS.map((ns, at) => ({
    at: START + BigInt(at) * 100n * BigInt(MS),
    duration: BigInt(ns),
    file: '/data/a',
    requested: BigInt(sizeOf(at)),
    fd: 5,
  })),
);
const perfect: Call[] = DURATIONS.map((target, event) => ({
  ...{ at: event * 100 * MS, target, event },
  size: sizeOf(event),
}));

describe('reading a report', () => {
  test('times are from the start, and exact', () => {
    const report = readReport(reportBytes([{ at: 5, target: 7, held: 9, event: 3, how: 'size', stream: 2 }]), 4);
    const one = Object.fromEntries(
      Object.entries(report).map(([name, values]) => [name, typeof values === 'number' ? values : values[0]]),
    );
    expect(one).toMatchObject({
      count: 1,
      receivedNs: 5,
      targetNs: 7,
      heldNs: 9,
      event: 3,
      how: MATCH_KINDS.size,
      stream: 2,
    });
  });

  test('of a report that was truncated anywhere, all complete records are read', () => {
    const bytes = reportBytes(perfect);
    for (let size = reportHeader.size; size <= bytes.length; size += 7)
      expect(readReport(bytes.subarray(0, size), 30).count).toBe(
        Math.floor((size - reportHeader.size) / reportCall.size),
      );
  });

  test('zeros after the last record are not records', () => {
    const bytes = Buffer.concat([reportBytes(perfect), Buffer.alloc(1000)]);
    expect(readReport(bytes, 30).count).toBe(30);
  });

  test('an empty file is a report without calls', () => {
    expect(readReport(Buffer.alloc(0), 0).count).toBe(0);
  });

  test.each([
    ['a cut header', reportBytes([]).subarray(0, 20), 'it ends within its header'],
    ['another file', Buffer.alloc(100, 'x'), 'does not begin as one'],
    ['another version', Buffer.from(reportBytes([])).fill(9, 7, 8), 'of another version'],
    ['other records', Buffer.from(reportBytes([])).fill(0, 8, 12), 'its records have 0 bytes'],
  ])('%s is refused with an explanation', (_, bytes, message) => {
    expect(() => readReport(bytes, 0)).toThrow(message);
  });

  test('no bytes in records make the figures fail', () => {
    const header = reportBytes([]);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 * 8 }), fc.boolean(), (noise, isLow) => {
        const bytes = Buffer.concat([header, isLow ? noise.map((byte) => byte & 3) : noise]);
        const report = readReport(bytes, 30);
        for (const event of report.event) expect(event === NONE || event < 30).toBe(true);
      }),
    );
  });
});

describe('figures', () => {
  test('a run that equals the incident', () => {
    const { figures, result } = ran(incident, perfect);
    expect(figures).toMatchObject({
      matched_by_duration: 1,
      matched_by_count: 1,
      fates: { delivered: 30, displaced: 0, missing: 0 },
      late: { p50_ns: 0, p99_ns: 0, max_ns: 0, calls: 30 },
      ks_distance: 0,
      slowest_delivered: 20,
      first_divergence_ns: null,
    });
    expect(result).toMatchObject({ verdict: 'replayed', reasons: [] });
  });

  test('lateness is what the build observed: a released call takes some microseconds more to continue', () => {
    const [bias_ns, lateNs] = [7000, 300];
    const said = saidOf({ kind: 'calibrated', floor_ns: 8000, bias_ns, sleep_p50_ns: 0, sleep_p99_ns: 0 });
    const letGo = perfect.map((call) => ({ ...call, held: call.target! - bias_ns }));
    expect(ran(incident, letGo, { said }).figures).toMatchObject({
      late: { p50_ns: 0, p99_ns: 0, max_ns: 0, calls: 30 },
      ks_distance: 0,
    });
    const late = letGo.map((call) => ({ ...call, held: call.held + lateNs }));
    expect(ran(incident, late, { said }).figures.late).toMatchObject({ p50_ns: lateNs, max_ns: lateNs });
  });

  test('events are counted by their outcome, weighted by their duration, whatever is left out or repeated', () => {
    const kind = fc.constantFrom('own' as const, 'other' as const, 'none' as const);
    fc.assert(
      fc.property(fc.array(kind, { minLength: 30, maxLength: 30 }), fc.nat(5), (fates, unknown) => {
        const calls = perfect.flatMap((call, at): Call[] => {
          if (fates[at] === 'none') return [];
          return fates[at] === 'own'
            ? [call, call]
            : [{ at: call.at!, target: call.target!, size: call.size!, how: 'extra' }];
        });
        const strangers = Array.from({ length: unknown }, (): Call => ({ how: 'no_stream', stream: NONE }));
        const { figures } = ran(incident, [...calls, ...strangers]);
        const count = (fate: string) => fates.filter((one) => one === fate).length;
        const { delivered, displaced, missing } = figures.fates;
        // An extra call may be counted for a longer event than the one that it was made from.
        expect([delivered, displaced + missing]).toEqual([count('own'), count('other') + count('none')]);
        expect(displaced).toBeLessThanOrEqual(count('other'));
        if (count('none') === 0) expect(missing).toBe(0);
        const deliveredNs = DURATIONS.reduce((sum, ns, at) => sum + (fates[at] === 'own' ? ns : 0), 0);
        expect(figures.matched_by_duration).toBe(deliveredNs / (465 * MS));
        expect(figures.slowest_delivered).toBe(fates.slice(10).filter((fate) => fate === 'own').length);
        expect(figures.how.no_stream).toBe(unknown);
      }),
    );
  });

  test('an event is displaced if a call of its class without an event waits at least half as long', () => {
    const extra = (target: number, op?: 'fsync'): Call => ({ target, how: 'extra', ...(op && { op }) });
    const fates = (...calls: Call[]) => ran(incident, calls).figures.fates.displaced;
    expect([fates(extra(15 * MS)), fates(extra(14 * MS)), fates(extra(1)), fates(extra(15 * MS, 'fsync'))]).toEqual([
      1, 1, 0, 0,
    ]);
    const [longest] = ran(incident, [extra(15 * MS)]).figures.slowest;
    expect(longest).toMatchObject({ target_ns: 30 * MS, fate: 'displaced', held_ns: 15 * MS });
  });

  test('events below the threshold are not counted', () => {
    const calls = perfect.slice(20);
    const { figures, result } = ran(incident, calls, { settings: { threshold_ns: 21 * MS } });
    expect(figures).toMatchObject({ considered_events: 10, matched_by_duration: 1, fates: { missing: 0 } });
    expect([figures.slowest.length, result.verdict]).toEqual([10, 'replayed']);
  });

  test('a threshold above all waits leaves nothing to replay, and the verdict says so', () => {
    const { result } = ran(incident, perfect, { settings: { threshold_ns: 1000 * MS } });
    expect(result).toMatchObject({
      verdict: 'diverged',
      reasons: ['no wait of the incident is as long as the threshold'],
    });
  });

  test('streams: how calls were matched, what is missing, and where the first mismatch was', () => {
    const stream = { kind: 'stream', op_class: 'write', path: '/data/a', role: 'node' };
    const said = saidOf(
      { ...stream, stream: 0, recorded_events: 30 },
      { ...stream, stream: 1, path: '/data/b', recorded_events: 4 },
    );
    const extra = (at: number): Call => ({ at, how: 'extra', target: MS });
    const calls = [perfect[0]!, extra(1), extra(2), perfect[1]!, extra(5), { ...perfect[2]!, how: 'window' as const }];
    const { figures, result } = ran(incident, calls, { said });
    expect(figures.streams).toMatchObject([
      {
        path: '/data/a',
        calls: 6,
        how: { exact: 2, extra: 3, window: 1 },
        missing_events: 27,
        injected_ns: 9 * MS,
        longest_unmatched: { calls: 2, from_ns: 1 },
      },
      { path: '/data/b', calls: 0, missing_events: 4, longest_unmatched: null },
    ]);
    expect(figures.first_divergence_ns).toBe(1);
    expect(formatSummaryLines(result)).toContain('never called: write /data/b (4 events)');
  });

  test('a file without a call is one line, and the logs of services are one line together', () => {
    const call = (file: string, at: number, service: string, fd: number) => ({
      at: START + BigInt(at),
      file,
      service,
      fd,
      requested: 64n,
    });
    const [file, logs] = ['/data/a', ['/srv/shop/stdout', '/srv/shop/stderr']];
    const rows = [
      ...['shop', 'index'].flatMap((service, at) => [call(file, at, service, 5), call(logs[0]!, at, service, 1)]),
      call(logs[1]!, 5, 'shop', 2),
    ].sort((one, other) => Number(one.at - other.at));
    const stream = { kind: 'stream', op_class: 'write', role: 'node', recorded_events: 1 };
    const paths = [file, file, logs[0]!, logs[0]!, logs[1]!];
    const said = saidOf(...paths.map((path, number) => ({ ...stream, path, stream: number })));
    const neverCalled = (of: typeof rows, saidOfRun = said) =>
      formatSummaryLines(ran(incidentOf(of), [], { said: saidOfRun }).result).filter((line) => /^never/.test(line));
    expect(neverCalled(rows)).toEqual([
      'never called: write /data/a (2 events)',
      'never called: 2 files that were the outputs of recorded programs, as logs are',
    ]);
    // A file that is also written otherwise is no log, and where there are only outputs, the outputs are named.
    expect(neverCalled([...rows, call(logs[1]!, 9, 'shop', 7)])).toContain(
      'never called: write /srv/shop/stderr (1 events)',
    );
    const onlyLogs = saidOf({ ...stream, path: logs[0]!, stream: 0 });
    expect(neverCalled(rows, onlyLogs)).toEqual(['never called: write /srv/shop/stdout (1 events)']);
  });

  test('a quantile is one of the values, and is not below its share of the others', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(), { minLength: 1 }), fc.double({ min: 0, max: 1, noNaN: true }), (values, share) => {
        const found = quantile(Float64Array.from(values).sort(), share)!;
        expect(values).toContain(found);
        expect(values.filter((value) => value <= found).length).toBeGreaterThanOrEqual(values.length * share);
      }),
    );
    expect(quantile(new Float64Array(), 0.5)).toBeNull();
  });

  test('the distance of distributions is the largest step between them', () => {
    const share = (values: number[], limit: number) => values.filter((one) => one <= limit).length / values.length;
    const values = fc.array(fc.nat(9), { minLength: 1, maxLength: 20 });
    fc.assert(
      fc.property(values, values, (one, other) => {
        const distances = [...one, ...other].map((at) => Math.abs(share(one, at) - share(other, at)));
        const found = computeKsDistance(Float64Array.from(one).sort(), Float64Array.from(other).sort());
        expect(found).toBeCloseTo(Math.max(...distances), 12);
      }),
    );
  });
});

describe('verdict', () => {
  const some = (share: number) => perfect.filter((_, at) => at >= 30 * (1 - share));

  test.each([
    ['replayed', perfect, []],
    [
      'partial',
      some(0.4),
      ['calls that they belong to got 63.2% of what was planned, not 90%', '12 of the 20 slowest'],
    ],
    ['diverged', some(0.2), ['calls that they belong to got 35.4% of', '6 of the 20 slowest events were delivered']],
    ['diverged', [], ['calls that they belong to got 0% of what was planned', '0 of the 20 slowest']],
    [
      'partial',
      perfect.map((call) => ({ ...call, held: call.target! + 9 * MS })),
      ['the machine is too noisy: 1 % of the waits may have been late by 9000 us or more, which is over half of'],
    ],
  ])('%s', (verdict, calls, reasons) => {
    const { result } = ran(incident, calls);
    expect(result.verdict).toBe(verdict);
    expect(result.reasons.length).toBe(reasons.length);
    for (const [at, reason] of reasons.entries()) expect(result.reasons[at]).toContain(reason);
  });

  test('the time that calls may have waited before they were seen counts as lateness', () => {
    const { figures, result } = ran(
      incident,
      perfect.map((call) => ({ ...call, queued: 9 * MS })),
    );
    expect(figures.late).toEqual({ p50_ns: 0, p99_ns: 0, max_ns: 0, calls: 30 });
    expect(figures.late_at_most).toEqual({ p50_ns: 9 * MS, p99_ns: 9 * MS, max_ns: 9 * MS });
    expect([result.verdict, result.reasons.length]).toEqual(['partial', 1]);
    expect(formatSummaryLines(result)).toContain(
      'calls waited in a queue before they were seen: late by up to 9ms (p50), 9ms (p99), 9ms (max)',
    );
  });

  test('in random mode only the sums are compared', () => {
    const calls = perfect.map(({ target, at }): Call => ({ at: at!, target: target!, how: 'distribution' }));
    expect(ran(incident, calls, { settings: { mode: 'dist' } }).result.verdict).toBe('replayed');
    expect(ran(incident, calls.slice(0, 20), { settings: { mode: 'dist' } }).result.verdict).toBe('diverged');
  });

  test('gates', () => {
    const gates = { require: 'partial' as const, maxDurationNs: 1e9, expectExit: 3 };
    const { result } = ran(incident, some(0.4), { gates, code: 3 });
    expect(result.gates).toEqual([
      {
        gate: '--require partial',
        met: true,
        detail: expect.stringMatching(/^it was partial: calls that they belong to got 63/),
      },
      { gate: '--max-duration', met: false, detail: 'the command took 1500.000ms of 1000.000ms' },
      { gate: '--expect-exit 3', met: true, detail: 'the command ended with 3' },
    ]);
  });
});
