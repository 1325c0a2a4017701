/** Runs a daemon whose sessions a bench plays. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { BenchError } from './bench.ts';
import { KREPLAY, start } from './process.ts';

export interface ReplayDaemon {
  socketPath: string;
  /** Creates a session and returns its id. */
  create(transactionId: string, speedFactor?: number): Promise<string>;
  remove(sessionId: string): Promise<void>;
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

  return {
    socketPath,
    async create(transactionId, speedFactor = 1) {
      const asked = { transaction_id: transactionId, speed_factor: speedFactor };
      return JSON.parse(await send('POST', '/api/replay/sessions', asked)).session_id;
    },
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
