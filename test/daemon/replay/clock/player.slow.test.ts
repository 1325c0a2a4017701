/** Tests the player's thread with real sockets and real time: what it plays is whole, in order, once, and never early. */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findPlainDescriptor } from '../../../../daemon/http/socket_progress.ts';
import { createThreadPlayer, FRAME, type Track } from '../../../../daemon/replay/clock/player.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-player-'));
const player = createThreadPlayer();
let server: Server;
const accepted: Socket[] = [];

beforeAll(async () => {
  server = createServer((socket) => accepted.push(socket));
  server.listen(join(folder, 'socket'));
  await once(server, 'listening');
});

afterAll(() => {
  player.close();
  for (const socket of accepted) socket.destroy();
  server.close();
  rmSync(folder, { recursive: true });
});

/** Both ends of a connection, and what arrived at the client with the time at which it did. */
async function connection(reads = true) {
  const client = connect(join(folder, 'socket'));
  // A socket that is not paused reads some before anybody asks for it.
  if (!reads) client.pause();
  await once(client, 'connect');
  while (accepted.length === 0) await sleep(1);
  const socket = accepted.pop()!;
  const received: { text: string; atNs: bigint }[] = [];
  const onData = (text: string) => received.push({ text, atNs: process.hrtime.bigint() });
  client.setEncoding('latin1');
  if (reads) client.on('data', onData);
  return {
    fd: findPlainDescriptor(socket)!,
    client,
    socket,
    received,
    read: () => client.on('data', onData).resume(),
    text: () => received.map(({ text }) => text).join(''),
  };
}

const now = process.hrtime.bigint;
const LINE_BYTES = 200;

const LATENESS_DIGITS = 16;

/** A socket has room for so many lines: a busy machine may keep this thread from reading. */
const UNREAD_LINES_MAX = 150;

/** Feeds lines of `memory`, from one up to another. A frame is a line with its number, its deadline, and its lateness. */
function feedLines(
  track: Track,
  memory: Buffer,
  [from, to]: readonly [number, number],
  dueOf: (line: number) => bigint,
): void {
  const frames = new BigInt64Array((to - from) * FRAME.length);
  for (let line = from; line < to; line++) {
    const start = line * LINE_BYTES;
    const head = `${line} due ${dueOf(line)} late `;
    memory.fill('.', start, start + LINE_BYTES - 1);
    memory.write(`${head}${'0'.padEnd(LATENESS_DIGITS)}`, start);
    memory[start + LINE_BYTES - 1] = 0x0a;
    const numbers = [dueOf(line), BigInt(start), BigInt(LINE_BYTES), BigInt(head.length)];
    frames.set(numbers, (line - from) * FRAME.length);
  }
  track.feed(memory, frames);
}

interface Line {
  number: number;
  dueNs: bigint;
  lateNs: bigint;
}

function linesOf(text: string): Line[] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => {
      const [, number, due, late] = /^(\d+) due (\d+) late (\d+) +\.*$/.exec(line)!;
      return { number: Number(number), dueNs: BigInt(due!), lateNs: BigInt(late!) };
    });
}

/** The bodies of chunks, which must be whole. */
function unchunked(text: string): string {
  let rest = text;
  let bodies = '';
  while (rest !== '') {
    const [head, digits] = /^([0-9a-f]{8})\r\n/.exec(rest)!;
    const end = head.length + Number.parseInt(digits!, 16);
    bodies += rest.slice(head.length, end);
    expect(rest.slice(end, end + 2)).toBe('\r\n');
    rest = rest.slice(end + 2);
  }
  return bodies;
}

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await sleep(1);
}

const lineCount = (text: string) => text.split('.\n').length - 1;

/** Fills the socket up to about this many writes of the length of a line; returns the number of bytes. */
async function fillUpTo(fd: number, left: number): Promise<number> {
  const probe = await connection(false);
  const line = Buffer.alloc(LINE_BYTES, 'x');
  let room = 0;
  try {
    while (writeSync(probe.fd, line) === LINE_BYTES) room++;
  } catch (error) {
    expect(error).toMatchObject({ code: 'EAGAIN' });
  }
  for (let filled = 0; filled < room - left; filled++) writeSync(fd, line);
  return (room - left) * LINE_BYTES;
}

async function untilPlayed(track: Track, count: number): Promise<number[]> {
  const latenesses: number[] = [];
  while (latenesses.length < count) {
    track.reportPlayed((latenessNs) => latenesses.push(latenessNs));
    await sleep(1);
  }
  return latenesses;
}

test.each([true, false])('viewers get each frame at its time, with its lateness; in chunks: %p', async (isChunked) => {
  const count = UNREAD_LINES_MAX;
  const track = player.track(() => {});
  const viewers = [await connection(), await connection()];
  const memory = Buffer.alloc(count * LINE_BYTES);
  for (const { fd } of viewers) expect(track.attach(fd, isChunked)).toBeDefined();
  const startNs = now() + 20_000_000n;
  feedLines(track, memory, [0, count], (line) => startNs + BigInt(line) * 500_000n);
  const latenesses = await untilPlayed(track, count);
  await until(() => viewers.every(({ text }) => lineCount(text()) >= count));
  for (const { text, received } of viewers) {
    const lines = linesOf(isChunked ? unchunked(text()) : text());
    expect(lines.map(({ number }) => number)).toEqual(Array.from({ length: count }, (_, i) => i));
    expect(lines.map(({ lateNs }) => Number(lateNs))).toEqual(latenesses);
    // The viewer's own clock: nothing arrives before the player says that it was sent.
    const arrivedNs = received.flatMap(({ text: part, atNs }) => Array(part.split('\n').length - 1 || 0).fill(atNs));
    if (!isChunked)
      for (const [i, { dueNs, lateNs }] of lines.entries()) expect(arrivedNs[i]! >= dueNs + lateNs).toBe(true);
  }
  track.close();
});

test('after frames are taken back, none of them is played, and what was played is known exactly', async () => {
  const count = 400;
  const track = player.track(() => {});
  const viewer = await connection();
  const memory = Buffer.alloc(count * LINE_BYTES);
  track.attach(viewer.fd, false);
  let played = 0;
  for (let round = 0; played < count; round++) {
    const startNs = now() + 1_000_000n;
    const first = played;
    const end = Math.min(first + UNREAD_LINES_MAX, count);
    feedLines(track, memory, [first, end], (line) => startNs + BigInt(line - first) * 50_000n);
    await sleep(round % 5);
    track.takeBack();
    const takenNs = now();
    played += track.reportPlayed(() => {});
    await until(() => lineCount(viewer.text()) >= played);
    await sleep(2);
    const lines = linesOf(viewer.text());
    expect(lines.length).toBe(played);
    for (const { dueNs, lateNs } of lines) expect(dueNs + lateNs).toBeLessThanOrEqual(takenNs);
  }
  expect(linesOf(viewer.text()).map(({ number }) => number)).toEqual(Array.from({ length: count }, (_, i) => i));
  track.close();
});

test('a socket without room costs the others nothing, and what it lacks is known to the byte', async () => {
  const [group, most] = [100, 50];
  let wakes = 0;
  const track = player.track(() => wakes++);
  const [slow, quick] = [await connection(false), await connection()];
  const memory = Buffer.alloc(group * most * LINE_BYTES);
  const filled = await fillUpTo(slow.fd, group / 2);
  const name = track.attach(slow.fd, true)!;
  track.attach(quick.fd, true);
  // Two sockets have about the same room, not exactly the same.
  let count = 0;
  while (count === 0 || (track.readSentBytes().has(name) && count < group * most)) {
    const startNs = now();
    const first = count;
    count += group;
    feedLines(track, memory, [first, count], (line) => startNs + BigInt(line - first) * 100_000n);
    await untilPlayed(track, group);
  }
  expect(wakes).toBeGreaterThan(0);
  const { through, rest } = track.detach(name)!;
  expect(through).toBeGreaterThan(0);
  expect(through).toBeLessThan(count);
  slow.read();
  slow.socket.write(rest);
  const slowText = () => slow.text().slice(filled);
  await until(() => lineCount(quick.text()) >= count && lineCount(slowText()) >= through);
  await sleep(20);
  expect(linesOf(unchunked(quick.text())).length).toBe(count);
  expect(linesOf(unchunked(slowText())).map(({ number }) => number)).toEqual(
    Array.from({ length: through }, (_, i) => i),
  );
  track.close();
});

test('a socket gets the frames that were played and not reported, at once, and those that follow', async () => {
  const track = player.track(() => {});
  const [witness, early, late] = [await connection(), await connection(), await connection()];
  const memory = Buffer.alloc(4 * LINE_BYTES);
  track.attach(witness.fd, false);
  feedLines(track, memory, [0, 2], now);
  await until(() => lineCount(witness.text()) === 2);
  expect(track.attach(early.fd, false)).toBeDefined();
  expect(track.reportPlayed(() => {})).toBe(2);
  track.attach(late.fd, true);
  feedLines(track, memory, [2, 4], now);
  await untilPlayed(track, 2);
  await until(() => lineCount(early.text()) >= 4 && lineCount(late.text()) >= 2);
  expect(linesOf(early.text()).map(({ number }) => number)).toEqual([0, 1, 2, 3]);
  expect(linesOf(unchunked(late.text())).map(({ number }) => number)).toEqual([2, 3]);
  track.close();
});

test('sockets that come and go while frames are played miss none, and get none twice', async () => {
  const count = 20_000;
  const track = player.track(() => {});
  const viewer = await connection();
  const memory = Buffer.alloc(count * LINE_BYTES);
  const startNs = now() + 1_000_000n;
  feedLines(track, memory, [0, count], (line) => startNs + BigInt(line) * 20_000n);
  let reported = 0;
  /** As a session does it: what a viewer lacks is written by hand before the player gets its socket. */
  let given = 0;
  while (reported < count) {
    reported += track.reportPlayed(() => {});
    viewer.socket.write(Buffer.from(memory.subarray(given * LINE_BYTES, reported * LINE_BYTES)));
    while (viewer.socket.writableLength > 0) await sleep(0);
    given = reported;
    const name = track.attach(viewer.fd, false)!;
    await sleep(given % 3);
    const { through, rest } = track.detach(name)!;
    viewer.socket.write(rest);
    while (viewer.socket.writableLength > 0) await sleep(0);
    given = through;
  }
  await until(() => lineCount(viewer.text()) >= count);
  expect(linesOf(viewer.text()).map(({ number }) => number)).toEqual(Array.from({ length: count }, (_, i) => i));
  track.close();
});

test('a track whose owner asks to be woken wakes it for frames that were played before', async () => {
  const woken = Promise.withResolvers<void>();
  const track = player.track(woken.resolve);
  const witness = await connection();
  const memory = Buffer.alloc(LINE_BYTES);
  track.attach(witness.fd, false);
  feedLines(track, memory, [0, 1], now);
  await until(() => lineCount(witness.text()) === 1);
  track.setWakes(true);
  await woken.promise;
  track.close();
});

test('a track that is a million frames behind does not delay the others', async () => {
  const count = 20_000;
  const [late, punctual] = [player.track(() => {}), player.track(() => {})];
  const viewer = await connection();
  late.attach(viewer.fd, false);
  const memory = Buffer.alloc(count * LINE_BYTES);
  const other = Buffer.alloc(100 * LINE_BYTES);
  const startNs = now();
  feedLines(punctual, other, [0, 100], (line) => startNs + 1_000_000n + BigInt(line) * 100_000n);
  feedLines(late, memory, [0, count], () => startNs - 1_000_000_000n);
  const latenesses = await untilPlayed(punctual, 100);
  const served = (await untilPlayed(late, count)).length;
  expect(served).toBe(count);
  expect(Math.min(...latenesses)).toBeGreaterThanOrEqual(0);
  late.close();
  punctual.close();
});
