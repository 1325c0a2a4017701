/** Small parts of a replay in the page: pace, delay, the end of the caller's wait, and what the link keeps. */

import fc from 'fast-check';
import type { ReceivedSession } from '../../daemon/contract/received.ts';
import { formatClockOffsets, parseClockOffsets } from '../../daemon/page/link/clock_offsets.ts';
import { EMPTY_LINK, formatLink, parseLink } from '../../daemon/page/link/link.ts';
import { createPace } from '../../daemon/page/replay/pace.ts';
import { computeExpectedRate, computeStopNs, createDelayMeter, isAtOwnEnd } from '../../daemon/page/replay/replay.ts';
import { placeOfSpeed, SPEED_SCALE } from '../../daemon/page/replay/settings.ts';
import { buildSessionSettings, linkSettings } from '../../daemon/page/replay/settings_in_link.ts';
import { buildWhere, listUnusedFilters } from '../../daemon/page/what_if/question.ts';

const SESSION: ReceivedSession = {
  ...{ session_id: 's', transaction_id: 'order-1', speed_factor: 1, extra_latency_ns: 0, timeout_ns: null },
  ...{ max_gap_ns: null, only: {}, clock: [], loop: false, state: 'playing', position_ns: 0, duration_ns: 1e9 },
  ...{ replay_duration_ns: 1e9, replay_end_ns: 5e9, event_index: 0, event_count: 300, times_out: false, rounds: 0 },
  until: null,
  lateness: { p50_ns: 0, p99_ns: 0, max_ns: 0, late_events: 0 },
  ...{ starts_at_ns: null, starvations: 0, failure: null, last_event_id: 0 },
  ...{ timeout_event_id: null, created_at: '2025-11-21T00:00:00.000Z', updated_at: '2025-11-21T00:00:00.000Z' },
};

/** A clock that a test moves, with timers that ring on it. */
function handClock() {
  const clock = { now: 0 };
  let timers: { at: number; ring: () => void }[] = [];
  return {
    nowMs: () => clock.now,
    after(ms: number, ring: () => void) {
      const timer = { at: clock.now + ms, ring };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    moveTo(ms: number) {
      clock.now = ms;
      const due = timers.filter(({ at }) => at <= ms);
      timers = timers.filter(({ at }) => at > ms);
      for (const { ring } of due) ring();
    },
  };
}

test('actions run at most once in each period, and the newest one always runs', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(250), { minLength: 1, maxLength: 40 }), (waits) => {
      const clock = handClock();
      const pace = createPace(100, clock);
      const ran: { at: number; action: number }[] = [];
      let now = 0;
      for (const [action, wait] of waits.entries()) {
        for (const end = now + wait; now < end; ) clock.moveTo(++now);
        pace.run(() => ran.push({ at: now, action }));
      }
      for (const end = now + 100; now < end; ) clock.moveTo(++now);
      expect(ran.at(-1)!.action).toBe(waits.length - 1);
      expect(ran[0]!.action).toBe(0);
      for (const [i, { at }] of ran.slice(1).entries()) expect(at - ran[i]!.at).toBeGreaterThanOrEqual(100);
    }),
  );
});

test('an action that waits can be forgotten', () => {
  const clock = handClock();
  const pace = createPace(100, clock);
  const ran: string[] = [];
  pace.run(() => ran.push('first'));
  pace.run(() => ran.push('second'));
  pace.cancel();
  clock.moveTo(500);
  expect(ran).toEqual(['first']);
});

test('a delay is how much later a frame is handled than the fastest one', () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(300), { minLength: 1, maxLength: 20 }),
      fc.constantFrom(0.001, 0.5, 1, 1000),
      (delays, speed) => {
        const meter = createDelayMeter();
        meter.reset(speed);
        let least = Number.POSITIVE_INFINITY;
        for (const [i, delay] of delays.entries()) {
          const sentMs = 1000 + i;
          least = Math.min(least, delay);
          expect(meter.take(sentMs * 1e6 * speed, sentMs + 40 + delay)).toBeCloseTo(delay - least, 6);
        }
      },
    ),
  );
  const meter = createDelayMeter();
  meter.take(0, 0);
  meter.take(10e6, 90);
  expect([meter.getDelayMs(91), meter.getDelayMs(1089), meter.getDelayMs(1091)]).toEqual([80, 80, 0]);
  meter.reset(2);
  expect(meter.getDelayMs(91)).toBe(0);
});

test('the end of the wait is said where a session stands exactly there, and something is written back later', () => {
  const there = { ...SESSION, state: 'paused' as const, position_ns: 1e9 };
  expect(isAtOwnEnd(there)).toBe(true);
  expect(isAtOwnEnd({ ...there, position_ns: 10n ** 9n, replay_duration_ns: 10n ** 9n })).toBe(true);
  const others: Partial<ReceivedSession>[] = [
    { state: 'playing' },
    { state: 'finished' },
    { position_ns: 1e9 - 1 },
    { position_ns: 1e9 + 1 },
    { replay_end_ns: 1e9 },
    { replay_duration_ns: null, replay_end_ns: null },
    { replay_duration_ns: 0, position_ns: 0 },
  ];
  for (const other of others) expect([other, isAtOwnEnd({ ...there, ...other })]).toEqual([other, false]);
});

test('the playhead runs to where the session will pause or end', () => {
  const cases: [Partial<ReceivedSession>, number][] = [
    [{}, 5e9],
    [{ until: 'replay_duration_ns' }, 1e9],
    [{ until: 'replay_duration_ns', replay_duration_ns: null, replay_end_ns: null }, Number.MAX_SAFE_INTEGER],
  ];
  for (const [change, toNs] of cases)
    expect([change, computeStopNs({ ...SESSION, ...change })]).toEqual([change, toNs]);
});

test('the expected rate grows with the speed', () => {
  expect(computeExpectedRate(SESSION)).toBe(300);
  expect(computeExpectedRate({ ...SESSION, speed_factor: 10 })).toBe(3000);
  expect(computeExpectedRate({ ...SESSION, replay_duration_ns: 0, event_count: 5 })).toBe(1);
});

test('the speeds of the slider are in steps of one ratio, and each finds its own place', () => {
  for (const [place, speed] of SPEED_SCALE.entries()) expect(placeOfSpeed(speed)).toBe(place);
  const ratios = SPEED_SCALE.slice(1).map((speed, i) => speed / SPEED_SCALE[i]!);
  for (const ratio of ratios) expect(Math.abs(ratio - 10 ** 0.1)).toBeLessThan(0.03);
  expect([SPEED_SCALE[0], SPEED_SCALE.at(-1), SPEED_SCALE.includes(1)]).toEqual([0.001, 1000, true]);
});

const ns = fc.bigInt(1n, 2n ** 53n - 1n);
const session = fc
  .record({
    speed_factor: fc.constantFrom(0.001, 0.1, 1, 3.5, 1000),
    extra_latency_ns: fc.bigInt(0n, 3_600_000_000_000n),
    timeout_ns: fc.option(fc.bigInt(1n, 2n ** 63n - 1n)),
    max_gap_ns: fc.option(fc.oneof(fc.constant(0n), ns)),
    only: fc.record(
      {
        event_type: fc.constant<string[]>(['sys_write']),
        service: fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 3 }),
      },
      { requiredKeys: [] },
    ),
  })
  .map((settings) => ({ ...SESSION, ...settings }));

test('a link has the settings of a session, and makes the same again', () => {
  fc.assert(
    fc.property(session, (given) => {
      const { link, problems } = parseLink(formatLink({ ...EMPTY_LINK, ...linkSettings(given) }));
      expect(problems).toEqual([]);
      const made = buildSessionSettings(link, new Map());
      expect({ speed_factor: 1, extra_latency_ns: 0n, timeout_ns: null, max_gap_ns: null, ...made }).toEqual({
        ...{ speed_factor: given.speed_factor, extra_latency_ns: given.extra_latency_ns },
        ...{ timeout_ns: given.timeout_ns, max_gap_ns: given.max_gap_ns, only: given.only, clock_offsets_ns: {} },
      });
    }),
  );
  // An API client may set speeds that no link can have.
  expect(linkSettings({ ...SESSION, speed_factor: 0.0012345678 }).speed).toBe(0.001235);
});

const node = fc.oneof(fc.string({ minLength: 1 }), fc.constantFrom('a:b', ':', '__proto__', 'n:+5'));
const offset = fc.bigInt(-(2n ** 53n) + 1n, 2n ** 53n - 1n);

test('clock offsets are read as they were written', () => {
  fc.assert(
    fc.property(fc.uniqueArray(node), fc.array(offset), (nodes, offsets) => {
      const given = new Map(nodes.map((name, i) => [name, offsets[i] ?? 0n]));
      const { offsets: read, problems } = parseClockOffsets({ clock_offset: formatClockOffsets(given) }, nodes);
      expect(problems).toEqual([]);
      expect([...read]).toEqual([...given].filter(([, one]) => one !== 0n));
    }),
  );
});

test('what is wrong with a clock offset is said, and the others count', () => {
  const clock_offset = [
    'n1:+5',
    'n1:6',
    'n2',
    'n3:1',
    ':1',
    'n2:-9223372036854775808',
    'n2:9223372036854775808',
    'n2:-7',
  ];
  const { offsets, problems } = parseClockOffsets({ clock_offset }, ['n1', 'n2']);
  expect([...offsets]).toEqual([
    ['n1', 5n],
    ['n2', -7n],
  ]);
  expect(problems).toEqual([
    'n1: is given more than once',
    'n2: must be node:nanoseconds',
    'n3: no node of this transaction',
    ':1: must be node:nanoseconds',
    'n2:-9223372036854775808: is more than 292 years',
    'n2:9223372036854775808: is more than 292 years',
  ]);
});

test('those like a transaction are what the link filters by, or of its service', () => {
  expect(buildWhere(EMPTY_LINK, 'shop')).toEqual({ service: ['shop'] });
  expect(buildWhere(EMPTY_LINK, null)).toEqual({});
  expect(buildWhere({ ...EMPTY_LINK, node: ['n1'], from: 1n }, 'shop')).toEqual({ node: ['n1'], from: 1n });
  const others = { ...EMPTY_LINK, service: ['a'], exclude_service: ['b'], comm: ['c'], has_error: true };
  expect(listUnusedFilters(others)).toEqual(['comm', 'exclude_service', 'has_error']);
});
