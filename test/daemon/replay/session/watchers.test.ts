/** Tests the viewers of a session that want no events: they get states and positions. */
import type { Session } from '../../../../daemon/replay/session/session.ts';
import { type Row, recorded, START } from '../../recorded.ts';
import { type Served, serve } from '../../served.ts';
import { MS, newSession, newSink, type PlannedEvent } from '../fixture.ts';
import { framesOf } from '../frames.ts';

/** An event each 10 ms for a second. */
const SECOND: readonly PlannedEvent[] = Array.from({ length: 100 }, (_, index) => ({
  startNs: BigInt(index) * 10n * MS,
}));
const BOTH = { state: true, position: true };

function watch(session: Session, wanted = BOTH, lastId: number | null = null) {
  const viewer = newSink();
  session.stream.watch(viewer.sink, lastId, wanted);
  const of = (kind: string) => framesOf(viewer.text).flatMap(({ event, data }) => (event === kind ? [data] : []));
  return { viewer, of, kinds: () => framesOf(viewer.text).map(({ event }) => event) };
}

test('positions come 20 times a second while it plays, and no events', async () => {
  const { session, clock } = await newSession(SECOND);
  const { of, kinds, viewer } = watch(session);
  await clock.pass(200n * MS);
  expect(kinds()).toEqual(['state']);
  await session.play();
  await clock.pass(505n * MS);
  const positions = of('position');
  expect(positions.map(({ position_ns }) => position_ns)).toEqual(
    Array.from({ length: 10 }, (_, i) => (i + 1) * 50_000_000),
  );
  // The next event is due at this moment.
  expect(positions.at(-1)).toMatchObject({ event_index: 50, lateness: { late_events: 0, max_ns: 0 } });
  session.pause();
  await clock.pass(300n * MS);
  expect(of('position')).toHaveLength(10);
  await session.play();
  await clock.pass(1000n * MS);
  expect(of('state').map(({ state }) => state)).toEqual(['ready', 'playing', 'paused', 'playing', 'finished']);
  expect(of('end')).toEqual([{ reason: 'finished' }]);
  expect([kinds().includes('event'), viewer.ended]).toEqual([false, true]);
});

test('only what is wanted comes; a position has no id, and a state that of the whole stream', async () => {
  const { session, clock } = await newSession(SECOND);
  const [states, positions] = [
    watch(session, { state: true, position: false }),
    watch(session, { state: false, position: true }),
  ];
  await session.play();
  await clock.pass(210n * MS);
  session.pause();
  expect(states.kinds()).toEqual(['state', 'state', 'state']);
  expect(positions.kinds()).toEqual(Array(4).fill('position'));
  expect(positions.viewer.text).not.toContain('id:');
  const whole = newSink();
  session.stream.join(whole.sink, Number(framesOf(states.viewer.text).at(-1)!.id));
  session.stop();
  expect(framesOf(whole.text).map(({ event }) => event)).toEqual(['state', 'end']);
  expect(positions.kinds().at(-1)).toBe('end');
});

test('a slow reader skips positions, and gets the newest state and the end when it reads again', async () => {
  const { session, clock } = await newSession(SECOND);
  const { viewer, of, kinds } = watch(session);
  await session.play();
  await clock.pass(60n * MS);
  viewer.fill();
  await clock.pass(300n * MS);
  const positions = of('position').length;
  expect(positions).toBeLessThanOrEqual(2);
  session.pause();
  await session.change({ speedFactor: 2 });
  viewer.drain();
  await clock.pass(MS);
  expect(of('state').map(({ state, speed_factor }) => [state, speed_factor])).toEqual([
    ['ready', 1],
    ['playing', 1],
    ['paused', 2],
  ]);
  expect([of('position').length, kinds().includes('gap')]).toEqual([positions, false]);
  viewer.fill();
  await session.play();
  await clock.pass(60n * MS);
  session.stop();
  expect(viewer.ended).toBe(false);
  viewer.drain();
  await clock.pass(MS);
  expect([of('state').at(-1).state, of('end'), viewer.ended]).toEqual(['stopped', [{ reason: 'stopped' }], true]);
});

test.each([
  ['changed', (session: Session) => session.change({ speedFactor: 2 })],
  ['played again', (session: Session) => session.play()],
])('one that did not read until the end gets it although the session was %s since', async (_what, goOn) => {
  const { session, clock } = await newSession(SECOND);
  const { viewer, of } = watch(session);
  await session.play();
  await clock.pass(60n * MS);
  viewer.fill();
  await clock.pass(2000n * MS);
  expect([session.state, viewer.ended]).toEqual(['finished', false]);
  const endId = session.stream.lastId;
  await goOn(session);
  await clock.pass(60n * MS);
  viewer.drain();
  await clock.pass(MS);
  expect(of('state').map(({ state, speed_factor }) => [state, speed_factor])).toEqual([
    ['ready', 1],
    ['playing', 1],
    ['finished', 1],
  ]);
  expect([of('end'), viewer.ended]).toEqual([[{ reason: 'finished' }], true]);
  // It goes on from there when it connects again.
  expect(framesOf(viewer.text).at(-1)!.id).toBe(String(endId));
});

test('one that joins after the end is released, unless it knows of it', async () => {
  const { session, clock } = await newSession(SECOND);
  await session.seek({ position_ns: 10n ** 12n });
  const late = watch(session);
  expect([late.kinds(), late.viewer.ended]).toEqual([['state', 'end'], true]);
  const waiting = watch(session, BOTH, session.stream.lastId);
  expect([waiting.kinds(), waiting.viewer.ended]).toEqual([['state'], false]);
  await session.play();
  await clock.pass(60n * MS);
  expect(waiting.kinds()).toEqual(['state', 'state', 'position']);
});

test('it counts as a viewer, gets heartbeats, and a closed session destroys one that does not read', async () => {
  const { session, clock } = await newSession(SECOND);
  const [reading, full] = [watch(session), watch(session)];
  full.viewer.fill();
  await session.play();
  await clock.pass(60n * MS);
  session.stream.sendHeartbeat();
  expect(session.stream.viewerCount).toBe(2);
  expect(reading.viewer.text).toContain(': hb\n');
  session.close('deleted');
  expect([reading.of('end'), reading.viewer.ended]).toEqual([[{ reason: 'deleted' }], true]);
  expect([full.viewer.destroyed, session.stream.viewerCount]).toEqual([true, 0]);
});

describe('over HTTP', () => {
  const ROWS: Row[] = Array.from({ length: 300 }, (_, n) => ({ at: START + BigInt(n) * MS, transaction: 'tx-1' }));
  const SESSIONS = '/api/replay/sessions';
  const JSON_TYPE = { 'content-type': 'application/json' };

  let app: Served;
  beforeAll(async () => {
    app = await serve(recorded(ROWS));
  });
  afterAll(() => app.close());

  async function session() {
    const made = await app.get(SESSIONS, { method: 'POST', headers: JSON_TYPE, body: '{"transaction_id":"tx-1"}' });
    return { path: `${SESSIONS}/${made.json.session_id}` };
  }

  test.each([
    ['?frames=state,position', ['end', 'position', 'state']],
    ['?frames=position', ['end', 'position']],
    ['?frames=state', ['end', 'state']],
    ['?frames=event,state', ['end', 'event', 'state']],
    ['', ['end', 'event', 'state']],
  ])('events%s has the frames %j', async (query, expected) => {
    const { path } = await session();
    const res = await app.open(`${path}/events${query}`);
    await app.get(`${path}/play`, { method: 'POST' });
    let text = '';
    for await (const chunk of res.setEncoding('utf8')) text += chunk;
    expect([...new Set(framesOf(text).map(({ event }) => event))].sort()).toEqual(expected);
  });

  test('a client that reads nothing until the end, and later, gets the end', async () => {
    const { path } = await session();
    const patch = (change: object) =>
      app.get(path, { method: 'PATCH', headers: JSON_TYPE, body: JSON.stringify(change) });
    const res = await app.open(`${path}/events?frames=state`);
    // States of 50 KB fill its socket.
    const service = Array.from({ length: 1000 }, (_, n) => `service-${n}`.padEnd(48, '.'));
    for (let n = 0; n < 200; n++) await patch({ speed_factor: 1 + n / 1000, only: { service } });
    await app.get(`${path}/seek`, { method: 'POST', headers: JSON_TYPE, body: '{"position_ns":10000000000}' });
    expect((await app.get(path)).json.state).toBe('finished');
    await patch({ speed_factor: 2 });
    let text = '';
    for await (const chunk of res.setEncoding('utf8')) text += chunk;
    const frames = framesOf(text);
    expect(frames.length).toBeLessThan(200);
    expect(frames.slice(-2).map(({ event, data }) => [event, data.state ?? data.reason])).toEqual([
      ['state', 'finished'],
      ['end', 'finished'],
    ]);
    // What came later is for its next connection.
    const again = await app.open(`${path}/events?frames=state`, { headers: { 'last-event-id': frames.at(-1)!.id! } });
    let rest = '';
    for await (const chunk of again.setEncoding('utf8')) rest += chunk;
    expect(framesOf(rest).map(({ event, data }) => [event, data.speed_factor])).toEqual([
      ['state', 2],
      ['end', undefined],
    ]);
  });

  test.each(['', 'x', 'event', 'state,state', 'event,position', 'state,position,event', 'State', 'state, position'])(
    'frames=%s is refused',
    async (frames) => {
      const { path } = await session();
      const { status, json } = await app.get(`${path}/events?frames=${encodeURIComponent(frames)}`);
      expect([status, json.code, json.errors[0].parameter]).toEqual([400, 'invalid_parameter', 'frames']);
    },
  );

  test('other parameters and ids that are not of the stream are refused', async () => {
    const { path } = await session();
    expect((await app.get(`${path}/events?speed=1`)).json.code).toBe('invalid_parameter');
    const answer = await app.get(`${path}/events?frames=state`, { headers: { 'last-event-id': '99' } });
    expect([answer.status, answer.json.errors[0].parameter]).toEqual([400, 'Last-Event-ID']);
  });
});
