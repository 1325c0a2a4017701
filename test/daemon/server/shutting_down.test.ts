/** Tests a daemon that ends: the next one restores its sessions, so it must not report them to clients as gone. */

import { createRequest } from '../../../daemon/contract/replay_requests.ts';
import { createPlanner } from '../../../daemon/replay/plan/planner.ts';
import { createSessions } from '../../../daemon/replay/session/sessions.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { recorded, START } from '../recorded.ts';

test('during shutdown, sessions are temporarily unavailable rather than missing', async () => {
  const store = openRecordingStore(recorded([{ at: START, transaction: 'tx' }]));
  const sessions = createSessions({ planner: createPlanner(store), now: () => START });
  const request = createRequest.parse({ transaction_id: 'tx' });
  const { sessionId } = (await sessions.create(request)) as unknown as { sessionId: string };
  await sessions.close();
  const asked = [
    () => sessions.get(sessionId),
    () => sessions.open(sessionId),
    () => sessions.remove(sessionId),
    () => sessions.create(request),
  ];
  for (const ask of asked) await expect(async () => ask()).rejects.toMatchObject({ code: 'shutting_down' });
  store.close();
});

test('commands in progress are unavailable too', async () => {
  const store = openRecordingStore(recorded([{ at: START, transaction: 'tx' }]));
  const sessions = createSessions({ planner: createPlanner(store), now: () => START });
  const session = await sessions.create(createRequest.parse({ transaction_id: 'tx' }));
  const gone = await sessions.create(createRequest.parse({ transaction_id: 'tx' }));
  const answers = [session.seek({ event_index: 0n }), session.play(), session.step(1), session.change({ loop: true })];
  const lost = gone.play();
  const [making, asking] = [
    sessions.create(createRequest.parse({ transaction_id: 'tx' })),
    sessions.open(session.view().session_id).then((same) => same.play()),
  ];
  const outcomes = Promise.allSettled([lost, ...answers, making, asking]);
  const removed = sessions.remove(gone.view().session_id);
  await sessions.close();
  const codes = (await outcomes).map((outcome) => (outcome.status === 'rejected' ? outcome.reason.code : 'done'));
  expect(codes).toEqual(['session_not_found', ...Array<string>(6).fill('shutting_down')]);
  await removed;
  expect(() => session.pause()).toThrow(expect.objectContaining({ code: 'shutting_down' }));
  store.close();
});
