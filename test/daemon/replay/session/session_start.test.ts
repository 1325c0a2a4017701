/** Tests the start of a session's clock, a little after the command: the first events are on time. */
import { MS, newSession, newSink, TEN_EVENTS, watch } from '../fixture.ts';

const LEAD_NS = 5n * MS;

test('the time to send the state does not delay the first event, which is due when the answer says', async () => {
  const { session, clock } = await newSession(TEN_EVENTS, { leadNs: LEAD_NS });
  const { frames } = watch(session);
  const slow = newSink();
  const { writeBytes } = slow.sink;
  slow.sink.writeBytes = (bytes, fill) => {
    clock.stall(2n * MS);
    return writeBytes.call(slow.sink, bytes, fill);
  };
  session.stream.join(slow.sink, null);
  await session.play();
  const { starts_at_ns } = session.view();
  await clock.pass(LEAD_NS + MS / 2n);
  const [first] = frames().filter(({ event }) => event === 'event');
  expect(slow.text).toContain('"state":"playing"');
  expect(slow.text).toContain(`"starts_at_ns":${starts_at_ns}`);
  expect(BigInt(first!.data.replay.due_ns)).toBe(starts_at_ns);
  expect(Number(first!.data.replay.lateness_ns)).toBeLessThan(20_000);
});

test('nor the first event after a seek', async () => {
  const { session, clock } = await newSession(TEN_EVENTS, { leadNs: LEAD_NS });
  const { frames } = watch(session);
  await session.play();
  await clock.pass(LEAD_NS + MS / 2n);
  const slow = newSink();
  const { writeBytes } = slow.sink;
  slow.sink.writeBytes = (bytes, fill) => {
    clock.stall(2n * MS);
    return writeBytes.call(slow.sink, bytes, fill);
  };
  session.stream.join(slow.sink, null);
  await session.seek({ event_index: 5n });
  await clock.pass(LEAD_NS + MS / 2n);
  const first = frames().find(({ event, data }) => event === 'event' && data.replay.index === 5);
  expect(Number(first!.data.replay.lateness_ns)).toBeLessThan(20_000);
});

test('a command before the clock has started: nothing has been played, and a new speed keeps the start', async () => {
  const { session, clock } = await newSession(TEN_EVENTS, { leadNs: LEAD_NS });
  const { indexes, frames } = watch(session);
  await session.play();
  await clock.pass(LEAD_NS - MS);
  expect(session.view()).toMatchObject({ state: 'playing', position_ns: 0n, event_index: 0 });
  session.pause();
  expect(session.view()).toMatchObject({ position_ns: 0n, starts_at_ns: null });
  await clock.pass(10n * MS);
  expect(indexes()).toEqual([]);
  await session.play();
  const { starts_at_ns } = session.view();
  await clock.pass(MS);
  await session.change({ speedFactor: 2 });
  expect(session.view().starts_at_ns).toBe(starts_at_ns);
  await clock.pass(20n * MS);
  expect(indexes()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  const due = frames().flatMap(({ event, data }) => (event === 'event' ? [BigInt(data.replay.due_ns)] : []));
  expect(due).toEqual(due.map((_, index) => starts_at_ns! + (BigInt(index) * MS) / 2n));
});
