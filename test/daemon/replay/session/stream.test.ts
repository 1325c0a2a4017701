/** Tests frames and viewers: nothing breaks a frame, no viewer is skipped silently, and no viewer waits for another. */
import { once } from 'node:events';
import { get } from 'node:http';
import type { AddressInfo } from 'node:net';
import express, { type Response } from 'express';
import fc from 'fast-check';
import { stringify } from '../../../../daemon/base/exact_json.ts';
import { formatFrame } from '../../../../daemon/base/sse.ts';
import { openEventStream } from '../../../../daemon/http/event_stream.ts';
import { createThreadPlayer, FRAME } from '../../../../daemon/replay/clock/player.ts';
import {
  createFrameLog,
  createStream,
  type EndReason,
  type FrameLog,
  KEPT_FRAMES_MAX,
  VIEWERS_MAX,
} from '../../../../daemon/replay/session/stream.ts';
import { pageOf, replayedJson } from '../event_pages.ts';
import { MS, newSession, newSink } from '../fixture.ts';
import { framesOf } from '../frames.ts';

const player = createThreadPlayer();
afterAll(player.close);

function newStream(over: () => EndReason | null = () => null) {
  const keptTotal = { bytes: 0 };
  const track = player.track(() => {});
  const stream = createStream({
    source: { describe: () => '{"state":"now"}', describePosition: () => null, findEndReason: over },
    keptTotal,
    track,
    catchUp: () => {},
    now: () => 0n,
    alarm: () => ({ set() {}, clear() {} }),
  });
  const frames = stream.recall();
  const publish = (from: number, count: number, padding = 0) => {
    for (let n = from; n < from + count; n++) {
      frames.addEvent(JSON.stringify({ n, padding: 'x'.repeat(padding) }));
      // A session flushes frames in groups, not one by one.
      if (n % 32 === 0) stream.flush();
    }
    stream.flush();
  };
  return { stream, frames, publish, keptTotal };
}

const numbers = (text: string): number[] =>
  framesOf(text).flatMap(({ event, data }) => (event === 'event' ? data.n : []));
const count = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, index) => from + index);

test('no content breaks the framing', () => {
  const texts = fc.string({ unit: 'binary' });
  const nasty = fc.constantFrom('\n\nevent: end\ndata: {}\n\n', '\r', '\r\n\r\n', '\u2028\u2029', '\0', '﻿', 'data: x');
  const contents = fc.dictionary(
    fc.oneof(texts, nasty),
    fc.oneof(texts, nasty, fc.bigInt({ min: 0n, max: 2n ** 64n })),
  );
  fc.assert(
    fc.property(fc.array(contents, { minLength: 1, maxLength: 5 }), (all) => {
      const json = all.map((content) => stringify(content));
      const frames = framesOf(json.map((text, id) => formatFrame('event', text, id)).join(''));
      expect(frames.map(({ text }) => text)).toEqual(json);
      expect(frames.map(({ id, event }) => `${event} ${id}`)).toEqual(json.map((_, id) => `event ${id}`));
    }),
  );
});

test('no frame can be added while the player has frames to play, or writes to the sockets', () => {
  const { stream, frames, publish } = newStream();
  const due = { page: pageOf(['{"n":1}']), at: 0, frames: new BigInt64Array(FRAME.length), timeoutNs: null };
  const add = [() => frames.addEvent('{}'), () => frames.addState('{}'), () => frames.end('finished')];
  expect(stream.prepare(due).count).toBe(1);
  for (const each of add) expect(each).toThrow('frames are prepared');
  stream.recall();
  stream.goDirect();
  for (const each of add) expect(each).toThrow('the player writes');
  expect(stream.lastId).toBe(0);
  stream.recall();
  publish(0, 1);
  expect(stream.lastId).toBe(1);
});

test('the log keeps its newest frames, and space is released', () => {
  const total = { bytes: 0 };
  const log = createFrameLog(total);
  for (let n = 1; n <= KEPT_FRAMES_MAX + 3; n++) log.append('event', '{}');
  expect(log.firstId).toBe(4);
  expect(log.lastId).toBe(KEPT_FRAMES_MAX + 3);
  expect(runOf(log, 4, 1).bytes.toString()).toBe(formatFrame('event', '{}', 4));
  log.clear();
  expect(total.bytes).toBe(0);
  expect(log.firstId).toBe(log.lastId + 1);
});

/** Frames from an id on, of about `bytesMax` bytes. */
function runOf(log: FrameLog, id: number, bytesMax: number) {
  const lastId = log.findLastId(id, bytesMax);
  const bytes = Buffer.alloc(log.computeRunBytes(id, lastId));
  log.copy(id, lastId, bytes, 0);
  return { bytes, lastId };
}

test('the log returns what was sent, from any position, and does not overwrite it', () => {
  const jsonOf = fc.tuple(fc.constantFrom('x', 'ü', '€', '😀'), fc.nat(40_000)).map(([of, times]) => of.repeat(times));
  const contents = fc.array(fc.oneof(fc.string(), jsonOf), { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(contents, fc.nat(), fc.integer({ min: 1, max: 200_000 }), (texts, seed, bytesMax) => {
      const all = texts.map((text) => JSON.stringify({ text }));
      const log = createFrameLog({ bytes: 0 });
      const frames = seed % 2 === 0 ? preparedAll(log, all) : appendedAll(log, all);
      const from = 1 + (seed % all.length);
      const runs: Buffer[] = [];
      for (let id = from; id <= log.lastId; ) {
        const run = runOf(log, id, bytesMax);
        runs.push(run.bytes);
        expect(log.countEventsThrough(run.lastId)).toBe(run.lastId);
        id = run.lastId + 1;
      }
      log.clear();
      appendedAll(
        log,
        all.map((json) => json.toUpperCase()),
      );
      expect(Buffer.concat(runs).toString()).toBe(frames.slice(from - 1).join(''));
    }),
    { numRuns: 50 },
  );
});

/** Appends them and returns their frames. */
function appendedAll(log: FrameLog, all: readonly string[]): string[] {
  for (const json of all) log.append('event', json, 1);
  return all.map((json, at) => formatFrame('event', json, at + 1));
}

/** The same for events of a page, which are prepared and committed in several parts. */
function preparedAll(log: FrameLog, all: readonly string[]): string[] {
  const page = pageOf(all);
  for (let at = 0; at < all.length; ) {
    const frames = new BigInt64Array(Math.min(7, all.length - at) * FRAME.length);
    const { count } = log.prepare({ page, at, frames, timeoutNs: null });
    log.commit(count - 1);
    log.commit(1);
    at += count;
  }
  return all.map((json, at) =>
    formatFrame('event', replayedJson(page, at, { json, dueNs: 0n, timeoutNs: null }), at + 1),
  );
}

test('data that was read from the log is unchanged when its space is reused', () => {
  const log = createFrameLog({ bytes: 0 });
  const told = (from: number, to: number) => {
    for (let id = from; id <= to; id++) log.append('event', `{"id":${id},"padding":"${'x'.repeat(500)}"}`, 1);
  };
  told(1, 200);
  const run = runOf(log, 150, 1);
  const text = run.bytes.toString();
  told(201, 3 * KEPT_FRAMES_MAX);
  expect(run.bytes.toString()).toBe(text);
  expect(log.countEventsThrough(log.firstId - 1)).toBe(log.firstId - 1);
});

test('a late viewer receives the state first, then all later events', () => {
  const { stream, publish } = newStream();
  publish(0, 3);
  const { sink, text } = newSink();
  expect(text).toBe('');
  const late = newSink();
  stream.join(late.sink, null);
  stream.join(sink, null);
  publish(3, 2);
  expect(late.text.startsWith('retry: 2000\n\nevent: state\nid: 3\n')).toBe(true);
  expect(numbers(late.text)).toEqual([3, 4]);
});

test('a resuming viewer misses nothing and receives nothing twice, wherever it was disconnected', () => {
  for (let cut = 0; cut <= 40; cut++) {
    const { stream, publish } = newStream();
    const first = newSink();
    stream.join(first.sink, null);
    publish(0, cut);
    const lastId = Number(framesOf(first.text).at(-1)!.id);
    first.sink.destroy();
    publish(cut, 40 - cut);
    const second = newSink();
    stream.join(second.sink, lastId);
    publish(40, 5);
    expect([...numbers(first.text), ...numbers(second.text)]).toEqual(count(0, 45));
  }
});

test('frames that the log no longer has are reported as a gap', () => {
  const { stream, publish } = newStream();
  publish(1, KEPT_FRAMES_MAX + 100);
  const back = newSink();
  stream.join(back.sink, 40);
  const frames = framesOf(back.text);
  expect(frames[0]).toMatchObject({ event: 'gap', id: '100', data: { missed: 60, first_id: 41, last_id: 100 } });
  expect(frames[1]).toMatchObject({ event: 'state', data: { state: 'now' } });
  expect(numbers(back.text)).toEqual(count(101, KEPT_FRAMES_MAX + 101));
});

test('a slow viewer receives everything when it reads again, and others received it long before', () => {
  const { stream, publish } = newStream();
  const slow = newSink();
  const fast = newSink();
  stream.join(slow.sink, null);
  stream.join(fast.sink, null);
  slow.fill();
  publish(0, 1000);
  expect(numbers(fast.text)).toEqual(count(0, 1000));
  expect(numbers(slow.text).length).toBeLessThan(100);
  slow.drain();
  publish(1000, 1);
  return new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
    expect(numbers(slow.text)).toEqual(count(0, 1001));
  });
});

test('a viewer that is too slow receives the number of missed frames, and the count is exact', async () => {
  const { stream, publish, keptTotal } = newStream();
  const slow = newSink();
  stream.join(slow.sink, null);
  slow.fill();
  publish(0, 3 * KEPT_FRAMES_MAX, 200);
  expect(keptTotal.bytes).toBeLessThan(KEPT_FRAMES_MAX * 300);
  slow.drain();
  await new Promise<void>((resolve) => setImmediate(resolve));
  const gap = framesOf(slow.text).find(({ event }) => event === 'gap')!;
  const got = numbers(slow.text);
  expect(got.length + gap.data.missed).toBe(3 * KEPT_FRAMES_MAX);
  expect(got.at(-1)).toBe(3 * KEPT_FRAMES_MAX - 1);
});

test('the session continues on time while a viewer does not read', async () => {
  const { session, clock } = await newSession();
  const stuck = newSink(true);
  session.stream.join(stuck.sink, null);
  await session.play();
  await clock.pass(20n * MS);
  expect(session.view()).toMatchObject({ state: 'finished', lateness: { late_events: 0 } });
});

test('a viewer that leaves is forgotten', async () => {
  const { stream, publish } = newStream();
  const viewer = newSink();
  stream.join(viewer.sink, null);
  expect(stream.viewerCount).toBe(1);
  viewer.sink.destroy();
  await new Promise<void>((resolve) => setImmediate(resolve));
  expect(stream.viewerCount).toBe(0);
  publish(0, 10);
  expect(numbers(viewer.text)).toEqual([]);
});

test('the number of viewers is limited', () => {
  const { stream } = newStream();
  for (let n = 0; n < VIEWERS_MAX; n++) {
    stream.checkRoom();
    stream.join(newSink().sink, null);
  }
  expect(() => stream.checkRoom()).toThrow(expect.objectContaining({ code: 'session_limit' }));
});

test('all viewers receive the same frames', () => {
  const { stream, publish } = newStream();
  const viewers = Array.from({ length: 50 }, () => newSink());
  for (const { sink } of viewers) stream.join(sink, null);
  publish(0, 100);
  expect(new Set(viewers.map(({ text }) => text)).size).toBe(1);
  expect(numbers(viewers[0]!.text)).toEqual(count(0, 100));
});

test('the end releases all viewers that received it; one that reconnects afterwards waits for another run', () => {
  let over: EndReason | null = null;
  const { stream, frames, publish } = newStream(() => over);
  const viewer = newSink();
  stream.join(viewer.sink, null);
  publish(0, 2);
  over = 'finished';
  frames.end('finished');
  expect(viewer.ended).toBe(true);
  expect(framesOf(viewer.text).at(-1)).toMatchObject({ event: 'end', id: '3', data: { reason: 'finished' } });

  const late = newSink();
  stream.join(late.sink, null);
  expect(framesOf(late.text).map(({ event }) => event)).toEqual(['state', 'end']);
  expect(late.ended).toBe(true);

  const missedTheEnd = newSink();
  stream.join(missedTheEnd.sink, 2);
  expect(framesOf(missedTheEnd.text).map(({ event }) => event)).toEqual(['end']);
  expect(missedTheEnd.ended).toBe(true);

  const back = newSink();
  stream.join(back.sink, 3);
  expect(back.ended).toBe(false);
  over = null;
  publish(2, 2);
  expect(numbers(back.text)).toEqual([2, 3]);
});

test('closing ends every stream: with a message to readers, without waiting for the others', () => {
  const { stream } = newStream();
  const [reading, stuck] = [newSink(), newSink(true)];
  stream.join(reading.sink, null);
  stream.join(stuck.sink, null);
  stream.close('shutdown');
  expect(framesOf(reading.text).at(-1)).toMatchObject({ event: 'end', data: { reason: 'shutdown' } });
  expect(reading.ended).toBe(true);
  expect(stuck.destroyed).toBe(true);
  expect(stream.viewerCount).toBe(0);
});

test('a heartbeat is a comment, and is not queued for a viewer that does not read', () => {
  const { stream } = newStream();
  const [reading, stuck] = [newSink(), newSink(true)];
  stream.join(reading.sink, null);
  stream.join(stuck.sink, null);
  const before = stuck.text;
  stream.sendHeartbeat();
  expect(reading.text.endsWith('\n\n: hb\n\n')).toBe(true);
  expect(stuck.text).toBe(before);
});

test('flushed data has left the process: its lateness is not more than reported', async () => {
  const { stream, publish } = newStream();
  const asked = Promise.withResolvers<Response>();
  const app = express().get('/', (_req, res) => asked.resolve(res));
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  get({ port: (server.address() as AddressInfo).port }, (res) => res.resume());
  const res = await asked.promise;
  stream.join(openEventStream(res), null);
  const left: number[] = [];
  for (let n = 1; n <= 3; n++) {
    publish(n, 1);
    left.push(res.writableLength);
  }
  stream.close('shutdown');
  server.close();
  expect(left).toEqual([0, 0, 0]);
});
