/**
 * Tests which frames of a session announce that its time line has changed: a sequence of frames, and a yes or no for
 * each.
 */

import type { ReplaySession, SessionFrame } from '../../../daemon/cli/player/remote_session.ts';
import { createLayoutWatch } from '../../../daemon/model/layout_changes.ts';
import { playedOf, sessionOf } from '../cli/player/fixture.ts';

const state = (more: Partial<ReplaySession>): SessionFrame => ({ kind: 'state', session: sessionOf(more) });
const EVENT: SessionFrame = { kind: 'event', played: playedOf(0), json: '' };
const READY = state({ state: 'ready' });
const PLAYING = state({ state: 'playing' });
const ON_THE_WAY = { event_index: 5, extra_latency_ns: 100_000 };

/** The frames after which the time line is laid out again. */
function anew(...frames: SessionFrame[]): SessionFrame[] {
  return frames.filter(createLayoutWatch(sessionOf({ state: 'ready' })));
}

test('playing, pausing, seeking and speed changes leave the layout unchanged', () => {
  const frames = [state({ event_index: 5 }), state({ speed_factor: 2 }), state({ state: 'finished' }), PLAYING];
  expect(anew(READY, PLAYING, EVENT, ...frames)).toEqual([]);
});

test('another latency is another timeline, even before the first frame', () => {
  const [more, less] = [state({ extra_latency_ns: 100_000n }), state({ extra_latency_ns: 0n })];
  expect(anew(more)).toEqual([more]);
  expect(anew(READY, more, EVENT, state({ extra_latency_ns: 100_000 }), less)).toEqual([more, less]);
});

test('after a change during the replay, a seek may be a change too', () => {
  const changed = state(ON_THE_WAY);
  const playing = state({ ...ON_THE_WAY, state: 'playing' });
  const sought = state({ ...ON_THE_WAY, event_index: 2 });
  const finished = state({ ...ON_THE_WAY, state: 'finished', event_index: 10 });
  const again = state({ ...ON_THE_WAY, state: 'playing', event_index: 0 });
  expect(anew(READY, PLAYING, changed, playing, EVENT, sought)).toEqual([changed]);
  expect(anew(changed, sought, sought)).toEqual([changed, sought, sought]);
  expect(anew(changed, playing, finished, again)).toEqual([changed, finished, again]);
});

test.each<[string, Partial<ReplaySession>]>([
  ['at the start', { event_index: 0, extra_latency_ns: 100_000 }],
  ['at the end', { event_index: 10, extra_latency_ns: 100_000, state: 'finished' }],
])('a latency that is set %s applies to all events, and no seek moves them', (_, set) => {
  const changed = state(set);
  expect(anew(READY, changed, state({ ...set, event_index: 3, state: 'paused' }))).toEqual([changed]);
});

test.each<[string, SessionFrame]>([
  ['missed', { kind: 'gap', missed: 3 }],
  ['those of an earlier daemon', { kind: 'gap', missed: null }],
  ['lost with the connection', { kind: 'lost', attempt: 1, cause: 'it broke' }],
])('frames that were %s may have included a change', (_, gap) => {
  expect(anew(READY, gap, EVENT, PLAYING, state({ state: 'paused' }))).toEqual([PLAYING]);
  const sought = state({ state: 'playing', event_index: 2 });
  expect(anew(READY, gap, PLAYING, sought)).toEqual([PLAYING, sought]);
});
