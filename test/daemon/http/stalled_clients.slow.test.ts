/** Tests 1200 clients that stall in eight ways, and come again when they are closed: small questions are answered. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { type Running, start } from '../command_line.ts';
import { recordedWrites } from '../recorded.ts';

const CLIENTS = 1200;
const EVENTS = 100_000;
/** A step of the clients comes before each of the first half. */
const ROUNDS = 20;
const TEST_MS = 120_000;
/** CPU time of the daemon's main thread between a small question and its answer. */
const BUSY_MS_MAX = 1000;
const BYTE_EVERY_MS = 1000;

const request = (path: string, accept = 'application/json') =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAccept: ${accept}\r\n\r\n`;
const POST =
  'POST /api/replay/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50000\r\n\r\n';

interface Way {
  sends: string;
  /** Sent again and again, slowly. */
  drips?: string;
  reads?: 'nothing' | 'a little';
}

const WAYS: Readonly<Record<string, Way>> = {
  'sends nothing': { sends: '' },
  'sends half a line': { sends: 'GET /api/ev' },
  'sends a header byte by byte': { sends: 'GET /api/events HTTP/1.1\r\nHost: localhost\r\nX-Slow: ', drips: 'x' },
  'sends a body byte by byte': { sends: POST, drips: ' ' },
  'reads nothing of a page': { sends: request('/api/events?limit=10000'), reads: 'nothing' },
  'reads a little of a stream': { sends: request('/api/events', 'application/x-ndjson'), reads: 'a little' },
  'reads nothing of a live stream': { sends: request('/api/events', 'text/event-stream'), reads: 'nothing' },
  'pipelines and reads nothing': { sends: request('/api/events?limit=2000').repeat(100), reads: 'nothing' },
};

let daemon: Running;
let port: number;
beforeAll(async () => {
  const folder = recordedWrites(EVENTS);
  daemon = start('daemon', '--data', folder, '--listen', '127.0.0.1:0');
  port = Number(/:(\d+)\n/.exec(await daemon.printed(/\n/))![1]);
  asker = spawn(process.execPath, ['--input-type=module', '-e', ASKER, String(port), String(daemon.child.pid)]);
  asker.stderr.pipe(process.stderr);
  answers = createInterface({ input: asker.stdout })[Symbol.asyncIterator]();
});
afterAll(async () => {
  asker.kill('SIGKILL');
  daemon.child.kill('SIGKILL');
  await daemon.ended;
});

function stall({ sends, drips, reads }: Way, isOver: () => boolean): void {
  const socket: Socket = connect(port, '127.0.0.1', () => socket.write(sends)).on('error', () => {});
  if (reads !== 'nothing') socket.once('data', () => reads === 'a little' && socket.pause()).resume();
  const timer = setInterval(() => {
    if (isOver()) socket.destroy();
    else if (drips !== undefined) socket.write(drips);
  }, BYTE_EVERY_MS);
  socket.once('close', () => {
    clearInterval(timer);
    if (!isOver()) setTimeout(() => !isOver() && stall({ sends, drips, reads } as Way, isOver), BYTE_EVERY_MS);
  });
}

/**
 * PORT PID: asks for each path that it reads, a line each, and prints when it has the answer: the status and the
 * daemon's CPU time since the question. It is a process of its own, because the clients that stall keep the process of
 * the test from reading answers, and the daemon goes on to serve them. CPU time, because on a busy machine the daemon's
 * thread waits for its turn.
 */
const ASKER = `
import { readFileSync } from 'node:fs';
import { get } from 'node:http';
import { createInterface } from 'node:readline';
const [port, pid] = process.argv.slice(1);
function busyMs() {
  const stat = readFileSync(\`/proc/\${pid}/task/\${pid}/stat\`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return 10 * (Number(fields[11]) + Number(fields[12]));
}
for await (const path of createInterface({ input: process.stdin })) {
  const began = busyMs();
  const print = (status) => console.log(JSON.stringify({ path, status, ms: busyMs() - began }));
  get({ host: '127.0.0.1', port, path, agent: false }, (res) => {
    res.resume().once('end', () => print(res.statusCode));
  }).once('error', ({ message }) => print(message));
}
`;

interface Small {
  path: string;
  status: number | string;
  ms: number;
}

let asker: ChildProcessWithoutNullStreams;
let answers: AsyncIterator<string>;

/** Asks for the paths, all at once. */
async function askSmall(...paths: string[]): Promise<Small[]> {
  asker.stdin.write(paths.map((path) => `${path}\n`).join(''));
  const small: Small[] = [];
  while (small.length < paths.length) small.push(JSON.parse((await answers.next()).value));
  return small;
}

const SMALL = [
  ...['/healthz', '/readyz', '/metrics', '/', '/api/nodes', '/api/transactions/tx-7', '/api/transactions?limit=10'],
  ...['/api/transactions/tx-7/summary', '/api/events?limit=10', '/api/events?limit=10&transaction_id=tx-9'],
];

test(
  'small questions are answered beside them, and soon',
  async () => {
    let isOver = false;
    const ways = Object.values(WAYS);
    // Code that runs for the first time takes longer.
    for (const path of [...SMALL, ...SMALL]) await askSmall(path);
    const seen = [];
    for (let round = 0; round < ROUNDS; round++) {
      const some = round < ROUNDS / 2 ? CLIENTS / (ROUNDS / 2) : 0;
      for (let i = 0; i < some; i++) stall(ways[i % ways.length]!, () => isOver);
      seen.push(...(await askSmall('/healthz', SMALL[round % SMALL.length]!)));
      await pause(100);
    }
    isOver = true;
    if (process.env.SIZES) {
      const slowest = seen.reduce((most, one) => (one.ms > most.ms ? one : most));
      process.stderr.write(`${JSON.stringify(slowest)}\n`);
    }
    expect(seen.filter(({ status }) => status !== 200)).toEqual([]);
    expect(seen.filter(({ ms }) => ms > BUSY_MS_MAX)).toEqual([]);
    const { text } = await textOf('/metrics');
    expect(Number(/closed_total\{reason="flooded"\} (\d+)/.exec(text)![1])).toBeGreaterThanOrEqual(
      CLIENTS / ways.length,
    );
  },
  TEST_MS,
);

async function textOf(path: string): Promise<{ text: string }> {
  const res = await fetch(`http://127.0.0.1:${port}${path}`);
  return { text: await res.text() };
}
