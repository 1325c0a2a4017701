/** A daemon that serves the web page of a recording on all CPUs, as in production. */
import { setTimeout as sleep } from 'node:timers/promises';
import { BenchError } from './bench.ts';
import { freePort, KREPLAY, start } from './process.ts';

export interface PageDaemon {
  url: string;
  /** Asks for JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: a bench reads single fields of answers of every shape
  ask(path: string, method?: 'GET' | 'POST', body?: object): Promise<any>;
  /** Milliseconds of each of some answers to the same question, after one that warms up. */
  answerMs(path: string, rounds: number): Promise<number[]>;
  stop(): Promise<void>;
}

export async function startPageDaemon(path: string, cpus: readonly number[], signal: AbortSignal): Promise<PageDaemon> {
  const port = await freePort();
  const options = ['--data', path, '--listen', `127.0.0.1:${port}`, '--log-level', 'error'];
  const program = ['taskset', '--cpu-list', cpus.join(','), ...KREPLAY, 'daemon', ...options];
  const daemon = start(program, { signal, channel: true });
  await daemon.ready;
  const url = `http://127.0.0.1:${port}`;

  async function send(target: string, method: 'GET' | 'POST', body?: object): Promise<string> {
    const headers = { accept: 'application/json', 'content-type': 'application/json' };
    const response = await fetch(url + target, { method, headers, signal, body: body ? JSON.stringify(body) : null });
    const answer = await response.text();
    if (!response.ok) throw new BenchError(`${method} ${target}: ${response.status} ${answer}`);
    return answer;
  }

  return {
    url,
    ask: async (target, method = 'GET', body) => JSON.parse(await send(target, method, body)),
    async answerMs(target, rounds) {
      const tookMs: number[] = [];
      for (let round = -1; round < rounds; round++) {
        const startMs = performance.now();
        await send(target, 'GET');
        if (round >= 0) tookMs.push(performance.now() - startMs);
        // A collection of garbage that the answer has caused is not the next one's.
        await sleep(50);
      }
      return tookMs;
    },
    async stop() {
      daemon.stop();
      await daemon.ended;
    },
  };
}
