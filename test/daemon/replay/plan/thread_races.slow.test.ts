/**
 * What the player's thread does between two steps of the main thread: it plays on while a command is carried out, and
 * what it has to report may arrive after a session was paused, ended or closed.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { createRequest } from '../../../../daemon/contract/replay_requests.ts';
import { createPlanner } from '../../../../daemon/replay/plan/planner.ts';
import { createSessions } from '../../../../daemon/replay/session/sessions.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import { type Row, recorded, START } from '../../recorded.ts';
import { newSink } from '../fixture.ts';
import { framesOf } from '../frames.ts';

const TX = 'tx-1';
const PERIOD_NS = 50_000n;
const EVENTS = 4000;
const ROUNDS = 30;

const rows: Row[] = Array.from({ length: EVENTS }, (_, i) => ({ at: START + BigInt(i) * PERIOD_NS, transaction: TX }));

let folder: string;
beforeAll(() => {
  folder = recorded(rows);
});

let opened: { close(): unknown }[] = [];
afterEach(() => {
  for (const { close } of opened.toReversed()) close();
  opened = [];
});

function newSessions() {
  const store = openRecordingStore(folder);
  const planner = createPlanner(store);
  const sessions = createSessions({ planner, now: () => START, leadNs: 0n, limits: { replayRateMax: 1e9 } });
  opened.push(store, planner, sessions);
  return sessions;
}

async function newSession(settings: object = {}) {
  const sessions = newSessions();
  return sessions.create(createRequest.parse({ transaction_id: TX, ...settings }));
}

/** Keeps the main thread from everything else, while the other one plays. */
function keepBusy(ms: number): void {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs);
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('a viewer that the main thread writes to does not end a session that is paused while events are played', async () => {
  const session = await newSession({ loop: true });
  const viewer = newSink();
  session.stream.join(viewer.sink, null);
  for (let round = 0; round < ROUNDS; round++) {
    await session.play();
    await turn();
    keepBusy(3);
    session.pause();
    const { event_index } = session.view();
    await turn();
    await turn();
    expect([session.state, session.view().failure, session.view().event_index]).toEqual(['paused', null, event_index]);
  }
  expect(framesOf(viewer.text).filter(({ event }) => event === 'event').length).toBeGreaterThan(ROUNDS);
});

test('a session ends, and a loop begins again, while the main thread is busy beyond its end', async () => {
  const finished = await newSession();
  finished.stream.join(newSink().sink, null);
  await finished.seek({ event_index: BigInt(EVENTS - 100) });
  await finished.play();
  for (let i = 0; i < 20 && finished.state === 'playing'; i++) {
    keepBusy(20);
    await turn();
  }
  expect([finished.state, finished.view().failure]).toEqual(['finished', null]);

  const looping = await newSession({ loop: true });
  looping.stream.join(newSink().sink, null);
  for (let round = 0; round < 5; round++) {
    await looping.seek({ event_index: BigInt(EVENTS - 100) });
    await looping.play();
    for (let i = 0; i < 5; i++) {
      keepBusy(10);
      await turn();
    }
  }
  expect([looping.state, looping.view().failure]).toEqual(['playing', null]);
});

test('each view of a playing session is of one moment', async () => {
  const session = await newSession();
  await session.play();
  const first = session.view();
  const differences = new Set<number>();
  for (let i = 0; i < 3000; i++) {
    const { last_event_id, event_index, position_ns } = session.view();
    if (session.state !== 'playing') break;
    differences.add(last_event_id - event_index);
    expect(position_ns).toBeLessThanOrEqual(BigInt(event_index) * PERIOD_NS);
    if (i % 100 === 0) await turn();
  }
  expect([...differences]).toEqual([first.last_event_id - first.event_index]);
});

test('a viewer that joins a playing session gets the events that follow its state', async () => {
  const session = await newSession({ loop: true });
  let joined = 0;
  for (let round = 0; round < ROUNDS; round++) {
    await session.play();
    const viewers = Array.from({ length: 5 }, () => {
      keepBusy(0.2);
      const viewer = newSink();
      session.stream.join(viewer.sink, null);
      return viewer;
    });
    keepBusy(1);
    await turn();
    session.pause();
    for (const { text, sink } of viewers) {
      joined += checkFirst(text);
      sink.destroy();
    }
  }
  expect(joined).toBeGreaterThan(ROUNDS);
});

/** The first event after the first state is the one that the state names, with the next id. Returns whether there is one. */
function checkFirst(text: string): number {
  const [state, event] = framesOf(text).filter(({ event: kind }) => kind === 'state' || kind === 'event');
  if (event?.event !== 'event') return 0;
  expect([event.data.replay.index, Number(event.id)]).toEqual([state!.data.event_index, Number(state!.id) + 1]);
  return 1;
}

/** Ends with an exception of the thread's callback, which Node.js otherwise only warns of. */
const CLOSED_EARLY = `
  import { createThreadPlayer } from './daemon/replay/clock/player.ts';
  // Played frames must stay in memory.
  const kept = Array.from({ length: 50 }, () => new Uint8Array(200));
  for (const [round, bytes] of kept.entries()) {
    const player = createThreadPlayer();
    const track = player.track(() => track.reportPlayed(() => {}));
    track.setWakes(true);
    track.feed(bytes, new BigInt64Array([process.hrtime.bigint(), 0n, 100n, 0n]));
    for (const untilMs = performance.now() + 2; performance.now() < untilMs; );
    if (round % 2 === 0) track.close();
    player.close();
    track.takeBack();
    if (track.reportPlayed(() => {}) !== 0 || track.attach(0, true) !== undefined) process.exit(3);
    await new Promise((resolve) => setImmediate(resolve));
  }
  process.stdout.write(kept.length === 50 ? 'done' : '');
`;

test('a player is closed while its thread has something to report', () => {
  const flags = ['--force-node-api-uncaught-exceptions-policy=true', '--input-type=module'];
  const { status, stdout, stderr } = spawnSync(process.execPath, [...flags, '--eval', CLOSED_EARLY], {
    cwd: join(import.meta.dirname, '../../../..'),
    encoding: 'utf8',
  });
  expect([status, stdout, stderr]).toEqual([0, 'done', '']);
});

test('a session is closed after all sessions were', async () => {
  const sessions = newSessions();
  const session = await sessions.create(createRequest.parse({ transaction_id: TX }));
  await session.play();
  await sessions.close();
  expect(() => session.close('shutdown')).not.toThrow();
});
