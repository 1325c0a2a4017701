/** Clients of a daemon that is killed now and then: some that query all the time, and some that hardly read. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/** A slow client reads a chunk of some 64 KiB, and then nothing for this time. */
const SLOW_READ_MS = 500;
const ASK_EVERY_MS = 500;
const COME_BACK_MS = 300;

const QUESTIONS = [
  '/api/events?limit=1000&from=-10s',
  '/api/events?limit=100&order=desc',
  '/api/stats?from=-5s&group_by=event_type',
  '/readyz',
  '/metrics',
];
const SLOW_STREAMS = [
  { path: '/api/events', accept: 'text/event-stream' },
  { path: '/api/events?min_duration_ms=0.0001', accept: 'text/event-stream' },
  { path: '/api/events?from=-1m', accept: 'application/x-ndjson' },
  { path: '/api/events?from=-1m&min_duration_ms=0.0001', accept: 'application/x-ndjson' },
  { path: '/api/events?from=-1m', accept: 'application/vnd.kreplay.columns' },
];

/** Errors of connections to a daemon that is killed or not there, and of those that we abort. */
const GONE: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ABORT_ERR']);

export interface ClientCounts {
  answers: number;
  /** Answers with status 503: the daemon had too much to do, or nothing to read from. */
  busy: number;
  /** Connections that broke, or were refused. */
  broken: number;
  slow_bytes: number;
  /** All other answers. */
  wrong: string[];
}

export interface Clients {
  counts: ClientCounts;
  /** Resolves when all clients have gone. */
  leave(): Promise<void>;
}

export function startClients(url: string): Clients {
  const leaving = new AbortController();
  const { signal } = leaving;
  const counts: ClientCounts = { answers: 0, busy: 0, broken: 0, slow_bytes: 0, wrong: [] };

  async function ask(path: string, accept: string, read: (res: IncomingMessage) => Promise<unknown>): Promise<void> {
    const asked = request(`${url}${path}`, { headers: { accept }, agent: false, signal }).end();
    try {
      const [res] = (await once(asked, 'response')) as [IncomingMessage];
      if (res.statusCode === 200) counts.answers++;
      else if (res.statusCode === 503) counts.busy++;
      else counts.wrong.push(`${path}: ${res.statusCode}`);
      await read(res);
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException;
      if (!GONE.has(code)) throw error;
      if (!signal.aborted) counts.broken++;
    } finally {
      asked.destroy();
    }
  }

  async function asking(): Promise<void> {
    for (let i = 0; !signal.aborted; i++) {
      await ask(QUESTIONS[i % QUESTIONS.length]!, 'application/json', drained);
      await pause(ASK_EVERY_MS);
    }
  }

  async function hardlyReading({ path, accept }: { path: string; accept: string }): Promise<void> {
    while (!signal.aborted) {
      await ask(path, accept, async (res) => {
        for await (const chunk of res) {
          counts.slow_bytes += chunk.length;
          await pause(SLOW_READ_MS);
        }
      });
      await pause(COME_BACK_MS);
    }
  }

  const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => {});
  const all = [asking(), asking(), ...SLOW_STREAMS.map(hardlyReading)];
  return {
    counts,
    async leave() {
      leaving.abort();
      await Promise.all(all);
    },
  };
}

async function drained(res: IncomingMessage): Promise<void> {
  for await (const _chunk of res);
}
