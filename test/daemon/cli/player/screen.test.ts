/** Tests the player's screen as a function of its state. */
import fc from 'fast-check';
import { ASCII, computeView, UNICODE } from '../../../../daemon/cli/player/lanes.ts';
import { computePositionNs } from '../../../../daemon/cli/player/player_state.ts';
import { findNextZoom, renderScreen, type Size } from '../../../../daemon/cli/player/screen.ts';
import { type Line, measureWidth, toAnsi } from '../../../../daemon/cli/player/styled_text.ts';
import { playedOf, playerBehind, sessionOf } from './fixture.ts';

const textOf = (lines: readonly Line[]) => lines.map((line) => toAnsi(line, false));
const FIVE = [0, 1, 2, 3, 4].map((index) => playedOf(index));

function screen(events = FIVE, size: Size = { columns: 80, rows: 14 }, session = {}): string[] {
  return textOf(renderScreen(playerBehind(events, session).state, size, 0, ASCII));
}

test('a paused replay, complete', () => {
  const events = [
    ...FIVE.slice(0, 3),
    playedOf(3, { error: 'ENOSPC', result: -28n }),
    playedOf(4, {}, { after_timeout: true }),
  ];
  const lateness = { p50_ns: 1000, p99_ns: 2000, max_ns: 2_500_000, late_events: 1 };
  const session = { timeout_ns: 4_200_000, times_out: true, timeout_event_id: 'x', lateness };
  expect(screen(events, { columns: 80, rows: 14 }, session)).toEqual([
    'order-1  services shop  nodes node-a',
    '| paused  speed 1  event 5/10  timeout 4.200ms: not kept',
    '               +0ns                      v                             +10.000ms',
    '100 app node-a ====         ====         !---                                   ',
    '101 app node-a       ====         x===   |                                      ',
    '========================------------------------------------ 4.000ms of 10.000ms',
    'recorded 2025-11-21T00:00:00.004000000Z  wall time 4.000ms of 10.000ms',
    'lateness p50 1.000us, p99 2.000us, max 2.500ms, 1 late',
    '     0        +0ns  500.000us  100    write /data/orde       64',
    '     1    +1.000ms  500.000us  101    write /data/orde       64',
    '     2    +2.000ms  500.000us  100    write /data/orde       64',
    '     3    +3.000ms  500.000us  101    write /data/orde        -  ENOSPC',
    '     4    +4.000ms  500.000us  100    write /data/orde       64  after timeout',
    '? keys',
  ]);
});

test('the bar and the axis show the duration, until the later write-back is played', () => {
  const session = { replay_end_ns: 32_000_000_000 };
  const during = screen(FIVE, { columns: 80, rows: 14 }, session);
  expect(during).toContainEqual(expect.stringMatching(/^=+-+ 4\.000ms of 10\.000ms, written back until 32\.000s$/));
  expect(during).toContainEqual(expect.stringMatching(/ \+10\.000ms$/));
  const after = screen(FIVE, { columns: 80, rows: 14 }, { ...session, position_ns: 20_000_000_000 });
  expect(after).toContainEqual(expect.stringMatching(/^=+ 20\.000s of 10\.000ms, written back until 32\.000s$/));
  expect(after).toContainEqual(expect.stringMatching(/ \+32\.000s$/));
});

test('events that are read ahead are drawn as upcoming', () => {
  const { state } = playerBehind(FIVE.slice(0, 1));
  state.threads.findOrAddPlace({ node: 'node-a', tid: 101, comm: 'app' });
  state.ahead.push({ thread: 1, startNs: 5e6, durationNs: 2e6, failed: false, afterTimeout: false });
  const lines = textOf(renderScreen(state, { columns: 35, rows: 14 }, 0, ASCII));
  expect(lines.find((line) => line.startsWith('101'))).toBe('101 app |            ------        ');
});

test('played events are drawn at the position that was read, and others where they were when played', () => {
  const { state } = playerBehind(FIVE);
  // The time line is laid out again with events three milliseconds apart; the last event has not been read.
  for (const { mark } of state.recent.slice(0, 4)) state.ahead.push({ ...mark, startNs: 3 * mark.startNs });
  const lanes = textOf(renderScreen(state, { columns: 35, rows: 14 }, 0, ASCII)).slice(3, 5);
  expect(lanes).toEqual(['100 app ==        =--   --         ', '101 app         ==|             -- ']);
});

test('extra latency is shown if there is some, and whether the deadline is met if that is known', () => {
  const status = (session: object) => screen(FIVE, { columns: 80, rows: 14 }, session)[1];
  expect(status({ extra_latency_ns: 0 })).toBe('| paused  speed 1  event 5/10');
  expect(status({ extra_latency_ns: 100_000 })).toBe('| paused  speed 1  event 5/10  latency +100.000us');
  const timeout = { extra_latency_ns: 3_600_000_000_000n, timeout_ns: 4_200_000 };
  const latency = '| paused  speed 1  event 5/10  latency +3600.000s  timeout 4.200ms';
  expect(status({ ...timeout, times_out: false })).toBe(`${latency}: kept`);
  expect(status({ ...timeout, times_out: null })).toBe(latency);
});

test('while the duration is recomputed the old one is shown, and the position may exceed it', () => {
  const player = playerBehind(FIVE);
  player.showSession(sessionOf({ event_index: 5, position_ns: 12_000_000, replay_duration_ns: null }), 0);
  const lines = textOf(renderScreen(player.state, { columns: 80, rows: 14 }, 0, ASCII));
  expect(lines).toContainEqual(expect.stringMatching(/^=+ 12\.000ms of 10\.000ms$/));
  player.showSession(sessionOf({ state: 'playing', position_ns: 12_000_000, replay_duration_ns: null }), 0);
  expect(computePositionNs(player.state, 1)).toBe(12_000_000);
  player.showSession(sessionOf({ state: 'playing', position_ns: 12_000_000, replay_duration_ns: 20_000_000 }), 0);
  expect(computePositionNs(player.state, 1)).toBe(13_000_000);
});

test('the time of day is that of the previous event, if a latency has moved it', () => {
  const recorded = (offset_ns: number, session = {}) =>
    screen([playedOf(1, {}, { offset_ns })], undefined, { position_ns: 1_700_000, ...session })[5]!.slice(0, 39);
  expect(recorded(1_000_000)).toBe('recorded 2025-11-21T00:00:00.001700000Z');
  expect(recorded(1_000_000, { extra_latency_ns: 1 })).toBe('recorded 2025-11-21T00:00:00.001000000Z');
  expect(recorded(1_500_000)).toBe('recorded 2025-11-21T00:00:00.001000000Z');
});

test('a lower terminal drops lanes and events first, then the least important parts', () => {
  const kept = [14, 8, 6, 5, 4, 3, 2, 1].map((rows) => screen(FIVE, { columns: 80, rows }).map((line) => line[0]));
  expect(kept.map((lines) => lines.length)).toEqual([14, 8, 6, 5, 4, 3, 2, 1]);
  expect(screen(FIVE, { columns: 80, rows: 4 }).map((line) => line.slice(0, 8))).toEqual([
    '| paused',
    '========',
    'recorded',
    '? keys',
  ]);
  expect(screen(FIVE, { columns: 80, rows: 1 })[0]).toMatch(/^\| paused/);
});

test('with more threads than rows, active ones are shown with the number of hidden ones', () => {
  const { state } = playerBehind([]);
  for (let tid = 1; tid <= 30; tid++) state.threads.findOrAddPlace({ node: 'n', tid, comm: 'idle' });
  state.ahead.push({ thread: 28, startNs: 0, durationNs: 1e6, failed: false, afterTimeout: false });
  const lines = textOf(renderScreen(state, { columns: 60, rows: 12 }, 0, ASCII));
  expect(lines).toContainEqual(expect.stringMatching(/^29 idle n .*-/));
  const shown = lines.filter((line) => / idle n /.test(line)).length;
  expect(lines).toContain(`and ${30 - shown} more threads`);
});

const text = fc.string({ unit: 'binary', maxLength: 30 });

test('for any recording and terminal size, every line fits and is plain text', () => {
  const size = fc.record({ columns: fc.integer({ min: 1, max: 200 }), rows: fc.integer({ min: 1, max: 60 }) });
  const events = fc.array(
    fc.record({ file: text, comm: text, node: text, tid: fc.integer({ min: 1, max: 4 }), error: fc.option(text) }),
    { maxLength: 40 },
  );
  fc.assert(
    fc.property(size, events, text, fc.integer({ min: -60, max: 60 }), fc.boolean(), (of, rows, name, zoom, help) => {
      const played = rows.map((more, index) => playedOf(index, more as never));
      const { state } = playerBehind(played, { transaction_id: name, event_count: 40 });
      Object.assign(state, { zoom, helpShown: help, message: help ? '' : name, services: [name] });
      for (const glyphs of [ASCII, UNICODE]) {
        const lines = textOf(renderScreen(state, of, 0, glyphs));
        expect(lines.length).toBeLessThanOrEqual(of.rows);
        for (const line of lines) {
          expect(measureWidth(line)).toBeLessThanOrEqual(of.columns);
          expect(line).not.toMatch(/\p{Cc}/u);
        }
      }
    }),
  );
});

test('colours are used only on request', () => {
  const lines = renderScreen(playerBehind(FIVE).state, { columns: 80, rows: 14 }, 0, ASCII);
  expect(lines.map((line) => toAnsi(line, true)).join('')).toContain('\u001b[32m');
  expect(textOf(lines).join('')).not.toContain('\u001b');
});

test('during a replay the position follows the clock of the player, scaled, and not past the end', () => {
  const { state, showSession } = playerBehind([]);
  showSession(sessionOf({ state: 'playing', position_ns: 2_000_000, speed_factor: 0.5 }), 100);
  expect(computePositionNs(state, 104)).toBe(4_000_000);
  expect(computePositionNs(state, 10_000)).toBe(10_000_000);
  showSession(sessionOf({ state: 'paused', position_ns: 5_000_000 }), 200);
  expect(computePositionNs(state, 10_000)).toBe(5_000_000);
});

test('after a seek back, upcoming events are not in the list', () => {
  const { state, showSession } = playerBehind(FIVE);
  showSession(sessionOf({ event_index: 2, position_ns: 2_000_000 }), 0);
  expect(state.recent.map(({ event }) => event.replay.index)).toEqual([0, 1]);
});

test('zooming stops at its limits, and reverses at once', () => {
  const { state } = playerBehind(FIVE);
  const ends = ([1, -1] as const).map((by) => {
    for (let press = 0; press < 100; press++) state.zoom = findNextZoom(state, by, 80);
    return state.zoom;
  });
  // The view is 10 ms on 65 columns, and at the closest a column is a nanosecond.
  expect(ends).toEqual([18, 0]);
  expect(findNextZoom(state, 1, 80)).toBe(1);
});

test('the view keeps the position visible and stays within the replay at any zoom', () => {
  const ns = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
  const events = fc.integer({ min: 1, max: 1_000_000 });
  fc.assert(
    fc.property(
      ns,
      fc.double({ min: 0, max: 1, noNaN: true }),
      events,
      fc.integer(),
      fc.integer({ min: 1, max: 300 }),
      (durationNs, part, eventsOfThread, zoom, columns) => {
        const placeNs = durationNs * part;
        const view = computeView(placeNs, { durationNs, eventsOfThread, zoom }, columns);
        const columnNs = (view.toNs - view.fromNs) / columns;
        expect(columnNs).toBeGreaterThanOrEqual(0.999);
        expect(view.fromNs).toBeGreaterThanOrEqual(0);
        expect(placeNs).toBeGreaterThanOrEqual(view.fromNs - columnNs);
        expect(placeNs).toBeLessThanOrEqual(view.toNs + columnNs);
        expect(view.toNs).toBeLessThanOrEqual(Math.max(durationNs, columns) * 1.001);
      },
    ),
  );
});
