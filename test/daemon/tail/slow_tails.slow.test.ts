/**
 * Tests tails whose clients do not read, with a real daemon: it buffers nothing for them and reports what they missed.
 */
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { openWriter, type RecordingWriter } from '../../../agent/recording/write/writer.ts';
import { type Running, start } from '../command_line.ts';
import { appendRows, newFolder, recordingPath } from '../recorded.ts';
import { type Tailed, tailOf } from './tailed.ts';

const EVENTS = 70_003;
const SLOW = 8;
const ROUNDS = 4;
/** Lower bound for the size of the frames of one round. */
const FRAMES_BYTES = EVENTS * 500;
const HOUR_NS = 3_600_000_000_000n;

let daemon: Running;
let writer: RecordingWriter;
/** Lead of the writer's clock over the real one; retention uses the writer's. */
let aheadNs = 0n;
/** Start time of the next event. */
let nextNs = 0n;
const nowNs = () => BigInt(Date.now()) * 1_000_000n;

beforeAll(() => {
  const folder = newFolder();
  const origin = { node: 'node', bootId: 'boot', machineId: 'machine' };
  const path = recordingPath(folder);
  writer = openWriter({ path, ...origin, nowNs: () => nowNs() + aheadNs, retention: { ageNs: HOUR_NS } });
  daemon = start('daemon', '--data', folder, '--listen', '127.0.0.1:0');
});
afterAll(async () => {
  writer.close();
  daemon.child.kill('SIGKILL');
  await daemon.ended;
});

async function tail(query: string): Promise<Tailed> {
  const url = / at (\S+)\n/.exec(await daemon.printed(/\n/))![1]!;
  return new Promise((resolve, reject) => {
    const asked = request(`${url}/api/events?${query}`, { headers: { accept: 'text/event-stream' }, agent: false });
    asked.on('response', (res) => resolve(tailOf(res))).on('error', reject);
    asked.end();
  });
}

function residentBytes(): number {
  const status = readFileSync(`/proc/${daemon.child.pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)![1]) * 1024;
}

async function record(): Promise<void> {
  for (let written = 0; written < EVENTS; written += 1000) {
    const now = nowNs();
    // Starts must increase: otherwise losses are counted only from approximately where the client was.
    if (now > nextNs) nextNs = now;
    const rows = Array.from({ length: Math.min(1000, EVENTS - written) }, (_, i) => ({
      at: nextNs++,
      file: `/a/long/path/${written + i}`,
    }));
    appendRows(writer, rows);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test('slow tails use constant memory, delay no client, and receive the number of missed events', async () => {
  const fast = await tail('');
  // The filters differ, so that no read is shared between two of them.
  const slow = await Promise.all(Array.from({ length: SLOW }, (_, i) => tail(`min_duration_ms=0.00000${i + 1}`)));
  for (const { res } of slow) res.pause();
  const sizes: number[] = [];
  for (let round = 1; round <= ROUNDS; round++) {
    await record();
    await fast.until(round * EVENTS);
    sizes.push(residentBytes());
  }
  if (process.env.SIZES) process.stderr.write(`${sizes.map((size) => size >> 20).join(' ')} MiB\n`);
  // The first round grows the heap. FRAMES_BYTES per round is what buffering for a single slow client would cost.
  expect(sizes.at(-1)! - sizes[0]!).toBeLessThan((ROUNDS - 1) * FRAMES_BYTES);

  // With the clock two hours ahead, retention removes all but the newest segments.
  aheadNs = 2n * HOUR_NS;
  await record();
  const recordedCount = (ROUNDS + 1) * EVENTS;
  for (const client of slow) {
    client.res.resume();
    await client.until(() => client.ids().length + lostOf(client) >= recordedCount);
    expect(client.ids().length + lostOf(client)).toBe(recordedCount);
    expect(new Set(client.ids()).size).toBe(client.ids().length);
    expect(lostOf(client)).toBeGreaterThan(EVENTS);
    await client.leave();
  }
});

function lostOf({ frames }: Tailed): number {
  const lost = frames.filter(({ event }) => event === 'lost');
  expect(new Set(lost.map(({ data }) => data.cause))).toEqual(new Set(lost.length > 0 ? ['retention'] : []));
  return lost.reduce((sum, { data }) => sum + data.lost, 0);
}
