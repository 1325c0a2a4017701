/** Runs a daemon whose sessions a bench plays. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { BenchError } from './bench.ts';
import { KREPLAY, start } from './process.ts';

export interface ReplayDaemon {
  socketPath: string;
  /** Creates a session and returns its id. */
  create(transactionId: string, speedFactor?: number): Promise<string>;
  remove(sessionId: string): Promise<void>;
  /** Sends a command, `play` for example, and returns how many milliseconds the answer took. */
  command(sessionId: string, name: string): Promise<number>;
  /** Number of events that were due before they had been read. */
  starvations(sessionId: string): Promise<number>;
  /** Reads everything and asks small questions, 1000 a second, until it is stopped. */
  busy(transactionId: string): { stop(): Promise<void> };
  /** CPU time of the daemon since it started. */
  cpuSeconds(): Promise<number>;
  stop(): Promise<void>;
}

/** It runs on all of `cpus`, as in production. */
export async function startReplayDaemon(
  path: string,
  folder: string,
  cpus: readonly number[],
  signal: AbortSignal,
): Promise<ReplayDaemon> {
  const socketPath = join(folder, 'replay.socket');
  const options = ['--data', path, '--listen', `unix:${socketPath}`, '--log-level', 'error'];
  const program = ['taskset', '--cpu-list', cpus.join(','), ...KREPLAY, 'daemon', ...options];
  const daemon = start(program, { signal, channel: true });
  await daemon.ready;

  async function send(method: string, target: string, body?: object): Promise<string> {
    const headers = { host: 'localhost', 'content-type': 'application/json' };
    const sent = request({ socketPath, method, path: target, headers, signal, agent: false });
    sent.end(body && JSON.stringify(body));
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    const answer = await text(response);
    if (response.statusCode! >= 300) throw new BenchError(`${method} ${target}: ${response.statusCode} ${answer}`);
    return answer;
  }

  /** Reads an answer without keeping it. */
  async function read(target: string, accept: string): Promise<void> {
    const sent = request({ socketPath, path: target, headers: { host: 'localhost', accept }, signal, agent: false });
    sent.end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    response.resume();
    await once(response, 'close');
    if (response.statusCode !== 200) throw new BenchError(`${target}: ${response.statusCode}`);
  }

  return {
    socketPath,
    async create(transactionId, speedFactor = 1) {
      const asked = { transaction_id: transactionId, speed_factor: speedFactor };
      return JSON.parse(await send('POST', '/api/replay/sessions', asked)).session_id;
    },
    async command(sessionId, name) {
      const startMs = performance.now();
      await send('POST', `/api/replay/sessions/${sessionId}/${name}`);
      return performance.now() - startMs;
    },
    async starvations(sessionId) {
      return JSON.parse(await send('GET', `/api/replay/sessions/${sessionId}`)).starvations;
    },
    busy: (transactionId) => startReaders(read, transactionId),
    async remove(sessionId) {
      await send('DELETE', `/api/replay/sessions/${sessionId}`);
    },
    async cpuSeconds() {
      const found = /^process_cpu_seconds_total ([\d.e+-]+)$/m.exec(await send('GET', '/metrics'));
      if (!found) throw new BenchError('the daemon does not tell its CPU time');
      return Number(found[1]);
    },
    async stop() {
      daemon.stop();
      await daemon.ended;
    },
  };
}

const JSON_TYPE = 'application/json';
const SMALL_PER_MS = 1;
const SMALL_UNANSWERED_MAX = 16;

function startReaders(
  read: (target: string, accept: string) => Promise<void>,
  transactionId: string,
): { stop(): Promise<void> } {
  let isOver = false;
  const small = `/api/events?transaction_id=${transactionId}&limit=10`;

  async function again(target: string, accept: string): Promise<void> {
    while (!isOver) await read(target, accept);
  }

  async function smallOnes(): Promise<void> {
    const startMs = performance.now();
    const unanswered = new Set<Promise<unknown>>();
    for (let sent = 0; !isOver; ) {
      const due = Math.floor((performance.now() - startMs) * SMALL_PER_MS);
      for (; sent < due && unanswered.size < SMALL_UNANSWERED_MAX; sent++) {
        const asked: Promise<unknown> = read(small, JSON_TYPE).finally(() => unanswered.delete(asked));
        unanswered.add(asked);
      }
      await sleep(1);
    }
    await Promise.all(unanswered);
  }

  const readers = [
    again('/api/stats?group_by=service,comm', JSON_TYPE),
    again('/api/events', 'application/x-ndjson'),
    smallOnes(),
  ];
  return {
    async stop() {
      isOver = true;
      await Promise.all(readers);
    },
  };
}
