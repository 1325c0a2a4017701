/** Tests which event `--until-event` means, also when a change of latency on the way has changed the order. */
import type { RemoteSession } from '../../../../daemon/cli/player/remote_session.ts';
import { stopRule } from '../../../../daemon/cli/player/stop_rule.ts';
import { playedOf, sessionOf } from './fixture.ts';

/** At the start each event has the index that `playedOf` gives it. */
const remote = { created: sessionOf(), send: async () => sessionOf({ event_index: 4 }) } as unknown as RemoteSession;
const moved = (index: number, to: number) => playedOf(index, {}, { index: to });

test('an event id stands for the same event, wherever it moves', async () => {
  const stopAt = await stopRule(remote, { untilEvent: String(playedOf(4).event_id) });
  expect([stopAt(playedOf(3)), stopAt(moved(5, 4))]).toEqual([null, null]);
  expect(stopAt(moved(4, 6))).toEqual({ by: 'until', index: 6, text: 'event 6: --until-event' });
});

test('an index stands for the event that is there now', async () => {
  const stopAt = await stopRule(remote, { untilEvent: '4' });
  expect(stopAt(moved(4, 6))).toBeNull();
  expect(stopAt(moved(5, 4))).toEqual({ by: 'until', index: 4, text: 'event 4: --until-event' });
});
