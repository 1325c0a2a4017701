/** Serves the app on a real socket, and sends requests with full control over what goes over it. */
import { once } from 'node:events';
import { type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Logger, pino } from 'pino';
import type { ListenAddress } from '../../daemon/http/listen_address.ts';
import { createMetrics } from '../../daemon/metrics/metrics.ts';
import { openState } from '../../daemon/replay/persistence/state_thread.ts';
import { createPlanner } from '../../daemon/replay/plan/planner.ts';
import { createSessions } from '../../daemon/replay/session/sessions.ts';
import { type AppOptions, buildApp } from '../../daemon/server/app.ts';
import { close, listen } from '../../daemon/server/server.ts';
import { createEmbeddedStore } from '../../daemon/store/embedded/embedded_store.ts';
import { openRecordingStore } from '../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../daemon/store/embedded/recordings.ts';
import type { Scans } from '../../daemon/store/embedded/scans.ts';
import { createTails, type TailOptions } from '../../daemon/tail/tails.ts';
import { START } from './recorded.ts';

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  /** The body as JSON.parse reads it: use `text` where digits matter. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  json: any;
}

export interface Sent {
  method?: string;
  headers?: Record<string, string | string[]>;
  body?: string | Buffer;
}

export interface Served {
  port: number;
  url: string;
  /** Sets the clock that relative times refer to. */
  setNow(ns: bigint): void;
  open(path: string, sent?: Sent): Promise<IncomingMessage>;
  get(path: string, sent?: Sent): Promise<Answer>;
  /** Number of live tails that are open. */
  tailCount(): number;
  /** Number of connections that were ever opened. */
  connectionCount(): number;
  /** Lines of the unpaged answer. */
  lines(path: string): Promise<string[]>;
  close(): Promise<void>;
}

const opened: Served[] = [];
afterEach(() => Promise.all(opened.splice(0).map((one) => one.close())));

/** `serve`, closed when the test ends. */
export async function served(data: string | Recordings, options?: Options): Promise<Served> {
  const one = await serve(data, options);
  opened.push(one);
  return one;
}

interface Options
  extends Pick<AppOptions, 'allowed' | 'scanGate' | 'shipState' | 'slowMs'>,
    Pick<TailOptions, 'heartbeatEveryMs'> {
  /** File that keeps the sessions; without it they are not kept. */
  stateFile?: string;
  /** How many sessions there can be, if not as many as a daemon has without an option. */
  sessionsMax?: number;
  /** Where it listens, if not at a port that is free. */
  address?: ListenAddress;
  /** What answers long scans, if not the thread of the test. */
  scans?: Scans;
  /** Where it logs, if anywhere. */
  log?: Logger;
}

/** `data` is a folder or file as for the daemon, or recordings that the test opened. */
export async function serve(
  data: string | Recordings,
  {
    heartbeatEveryMs,
    stateFile,
    sessionsMax,
    address = { host: '127.0.0.1', port: 0 },
    scans,
    log = pino({ level: 'silent' }),
    ...options
  }: Options = {},
): Promise<Served> {
  let now = START;
  const recordings = typeof data === 'string' ? openRecordingStore(data) : data;
  const store = createEmbeddedStore(recordings, scans);
  const metrics = createMetrics();
  const state = stateFile === undefined ? undefined : await openState(stateFile);
  const planner = createPlanner(recordings);
  const limits = sessionsMax === undefined ? {} : { limits: { sessionsMax } };
  const sessions = createSessions({ planner, now: () => now, onPlayed: metrics.recordLateness, state, ...limits });
  const folder = typeof data === 'string' ? data : undefined;
  const tails = createTails({ store, now: () => now, log, ...(heartbeatEveryMs && { heartbeatEveryMs }) });
  const app = buildApp({ store, sessions, tails, now: () => now, log, metrics, data: folder, ...options });
  const [server, url] = await listen(app, address, { onClosed: metrics.countClosedConnection });
  const { port } = server.address() as AddressInfo;
  let connected = 0;
  server.on('connection', () => connected++);

  async function open(path: string, { method = 'GET', headers = {}, body }: Sent = {}): Promise<IncomingMessage> {
    const sent = request({ host: '127.0.0.1', port, path, method, headers, agent: false });
    sent.end(body);
    const [res] = (await once(sent, 'response')) as [IncomingMessage];
    return res;
  }

  async function get(path: string, sent?: Sent): Promise<Answer> {
    const res = await open(path, sent);
    const chunks: Buffer[] = [];
    for await (const chunk of res) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString('utf8');
    const isJson = /json/.test(res.headers['content-type'] ?? '') && !/ndjson/.test(res.headers['content-type'] ?? '');
    return { status: res.statusCode!, headers: res.headers, text, json: isJson && text ? JSON.parse(text) : undefined };
  }

  return {
    port,
    url,
    setNow(ns) {
      now = ns;
    },
    open,
    get,
    tailCount: () => tails.count,
    connectionCount: () => connected,
    async lines(path) {
      const { text } = await get(path, { headers: { accept: 'application/x-ndjson' } });
      return text.split('\n').slice(0, -1);
    },
    async close() {
      tails.close();
      await sessions.close();
      await close(server);
      await store.close();
    },
  };
}
