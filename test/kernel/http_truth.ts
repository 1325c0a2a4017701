/**
 * How often the recorded trace of a write is that of the request which it was done for.
 *
 * A server writes two lines for each request, `before` and `after` a wait, into a file of the request's own, with the
 * trace that it took from the request's header: so every recorded write tells itself whose it is.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SysWriteEvent } from '../../bpf/schema/api.ts';
import { readRecording, startAgent, temporaryFolder } from './recorded_run.ts';

const WAIT_MAX_MS = 20;
/** A request that is sent in two parts: between them, so that the server reads them one by one. */
const PART_AFTER_MS = 5;
const LOOK_MS = 5;
const LOOKS_MAX = 2000;
const ATTEMPTS_MAX = 3;
/** What a server serves before its writes are scored: its threads are there then, and it has proven what they do. */
const earlyLoad = (name: string): Load => ({ name, concurrency: 16, requests: 32 });

export interface Server {
  /** Also the name of its service. */
  name: string;
  command: readonly [string, ...string[]];
}

export interface RequestShape {
  /** Without the header, its writes are nobody's. */
  traced?: boolean;
  method?: string;
  /** Between the two lines. */
  waitMs?: number;
  /** Of a cookie in front of the header. */
  cookieBytes?: number;
  body?: string;
  /** Nothing but the line of the request, a host, and what is asked for here. */
  bare?: boolean;
  /** Where it is cut in two: the second part is sent a moment later. */
  cutBefore?: string;
  /**
   * What comes next: the next request on the same connection when this one is answered (`keep`) or together with this
   * one (`pipeline`); or on another connection, when this one is answered (`close`) or given up (`reset`).
   */
  ending?: 'keep' | 'pipeline' | 'close' | 'reset';
}

/** Requests in a row on each of some connections at a time. */
export interface Load {
  name: string;
  concurrency: number;
  requests: number;
  shape?(number: number): RequestShape;
}

export interface Score {
  right: number;
  none: number;
  wrong: number;
  /** Not recorded. */
  missing: number;
}

/** Writes before and after the wait. */
export interface Scores {
  before: Score;
  after: Score;
  /** Source and quality of those that have a trace. */
  attributions: string[];
}

export interface RunOptions {
  flags?: readonly string[];
  /** The server has served before the agent comes. */
  serverFirst?: boolean;
}

interface Request {
  path: string;
  trace: string | null;
  span: string | null;
  text: string;
  /** What the server writes. */
  lines: readonly [before: string, after: string];
  shape: RequestShape;
}

/** Gives the scores of each load by its name. */
export async function scoreServer(
  server: Server,
  loads: readonly Load[],
  options: RunOptions = {},
): Promise<Record<string, Scores>> {
  for (let attempt = 1; ; attempt++) {
    const folder = temporaryFolder();
    try {
      const requests = loads.map(requestsOf);
      await runLoads(server, loads, requests, folder, options);
      const recorded = readRecording(folder);
      // Somebody else on this host has flooded the agent with names: then it knows of none, and says so.
      if (recorded.losses().some(({ cause }) => cause === 'definition_lost') && attempt < ATTEMPTS_MAX) continue;
      const writes = Map.groupBy(recorded.writes({ services: [server.name] }), ({ file }) => file);
      const scores = loads.map(
        ({ name }, i) => [name, scoreRequests(requests[i]!, writtenIn(folder), writes)] as const,
      );
      return Object.fromEntries(scores);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
}

const writtenIn = (folder: string) => join(folder, 'written');

async function runLoads(
  server: Server,
  loads: readonly Load[],
  requests: readonly (readonly Request[])[],
  folder: string,
  { flags = [], serverFirst = false }: RunOptions,
): Promise<void> {
  const written = writtenIn(folder);
  mkdirSync(written);
  const sendAll = async (port: number) => {
    for (const [i, load] of loads.entries()) await send(load, requests[i]!, port, written);
  };
  const sendEarly = (name: string, port: number) => {
    const early = earlyLoad(name);
    return send(early, requestsOf(early), port, written);
  };
  if (serverFirst) {
    await withServer(server, written, async (port) => {
      await sendEarly('early-first', port);
      await withAgent(folder, flags, async () => {
        await sendEarly('early', port);
        await sendAll(port);
      });
    });
  } else {
    await withAgent(folder, flags, () =>
      withServer(server, written, async (port) => {
        // With the write of its port the agent knows the process.
        await until(() => readRecording(folder).writes({ services: [server.name] }).length > 0);
        await sendEarly('early', port);
        await sendAll(port);
      }),
    );
  }
}

async function withAgent(folder: string, flags: readonly string[], work: () => Promise<void>): Promise<void> {
  const agent = await startAgent(folder, flags);
  try {
    await work();
  } finally {
    await agent.stop();
  }
}

async function withServer(
  { name, command: [file, ...args] }: Server,
  written: string,
  work: (port: number) => Promise<void>,
): Promise<void> {
  const server = spawn(
    file,
    args.map((arg) => (arg === 'FOLDER' ? written : arg)),
    { env: { PATH: process.env.PATH, OTEL_SERVICE_NAME: name }, stdio: ['pipe', 'pipe', 'inherit'] },
  );
  const ended = once(server, 'exit');
  try {
    const [line] = await Promise.race([
      once(server.stdout.setEncoding('utf8'), 'data'),
      ended.then(() => Promise.reject(new Error(`${name} ended before it served`))),
    ]);
    await work(Number(line));
  } finally {
    server.stdin.end();
    await ended;
  }
}

async function until(holds: () => boolean): Promise<void> {
  for (let looks = 0; !holds(); looks++) {
    if (looks === LOOKS_MAX) throw new Error(`not within ${LOOKS_MAX * LOOK_MS} ms: ${holds}`);
    await sleep(LOOK_MS);
  }
}

function requestsOf({ name, requests, shape }: Load): Request[] {
  return Array.from({ length: requests }, (_, number) => {
    const of = shape?.(number) ?? {};
    const path = `/${name}-${number}`;
    const [trace, span] = of.traced === false ? [null, null] : [randomHex(16), randomHex(8)];
    const waitMs = of.waitMs ?? (number * 8) % (WAIT_MAX_MS + 1);
    const lines = [`before ${trace ?? '-'}\n`, `after ${trace ?? '-'}\n`] as const;
    const header = trace && `traceparent: 00-${trace}-${span}-01`;
    return { path, trace, span, text: textOf(`${path}?${waitMs}`, header, of), lines, shape: of };
  });
}

const randomHex = (bytes: number) => randomBytes(bytes).toString('hex');

function textOf(target: string, header: string | null, shape: RequestShape): string {
  const { method, cookieBytes, body, bare, ending } = shape;
  const lines = [
    `${method ?? (body === undefined ? 'GET' : 'POST')} ${target} HTTP/1.1`,
    'Host: a',
    ...(bare ? [] : ['User-Agent: kreplay/1', 'Accept: */*']),
    ...(ending === 'close' ? ['Connection: close'] : []),
    ...(cookieBytes === undefined ? [] : [`Cookie: ${'c'.repeat(cookieBytes - 'Cookie: '.length)}`]),
    ...(header === null ? [] : [header]),
    ...(body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]),
  ];
  return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`;
}

async function send({ concurrency }: Load, requests: readonly Request[], port: number, written: string): Promise<void> {
  const queue = requests.values();
  const client = async () => {
    let connection = await openConnection(port);
    let unsent: string[] = [];
    for (const { path, text, shape } of queue) {
      const { cutBefore, ending = 'keep' } = shape;
      unsent.push(text);
      if (ending === 'pipeline') continue;
      const message = unsent.join('');
      const cutAt = cutBefore === undefined ? 0 : message.indexOf(cutBefore);
      if (cutAt > 0) {
        connection.write(message.slice(0, cutAt));
        await sleep(PART_AFTER_MS);
      }
      connection.write(message.slice(cutAt));
      if (ending === 'reset') await until(() => existsSync(written + path));
      else await connection.answers(unsent.length);
      unsent = [];
      if (ending === 'keep') continue;
      connection.close(ending === 'reset');
      connection = await openConnection(port);
    }
    connection.close();
  };
  await Promise.all(Array.from({ length: concurrency }, client));
  // Those that were given up are still at it.
  await until(() => requests.every(({ path, lines }) => readFileSync(written + path, 'latin1') === lines.join('')));
}

interface Connection {
  write(text: string): void;
  /** So many of them. */
  answers(count: number): Promise<void>;
  close(reset?: boolean): void;
}

/** To a server whose answers have no body. */
async function openConnection(port: number): Promise<Connection> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  let text = '';
  socket.setEncoding('latin1').on('data', (part: string) => {
    text += part;
  });
  await once(socket, 'connect');
  const closed = once(socket, 'close').then(() => Promise.reject(new Error(`the server answered only ${text}`)));
  closed.catch(() => {});
  return {
    write: (part) => void socket.write(part),
    async answers(count) {
      const isWhole = () => text.split('\r\n\r\n').length - 1 === count;
      while (!isWhole()) await Promise.race([once(socket, 'data'), closed]);
      if (text.split('HTTP/1.1 200 ').length - 1 !== count) throw new Error(`the server answered ${text}`);
      text = '';
    },
    close: (reset) => void (reset ? socket.resetAndDestroy() : socket.destroy()),
  };
}

function scoreRequests(
  requests: readonly Request[],
  written: string,
  writes: ReadonlyMap<string | null, readonly SysWriteEvent[]>,
): Scores {
  const nothing: Score = { right: 0, none: 0, wrong: 0, missing: 0 };
  const scores = { before: { ...nothing }, after: { ...nothing } };
  const attributions = new Set<string>();
  for (const request of requests) {
    for (const [i, score] of [scores.before, scores.after].entries()) {
      const bytes = BigInt(request.lines[i]!.length);
      const [write, ...more] = writes.get(written + request.path)?.filter(({ result }) => result === bytes) ?? [];
      if (more.length > 0) throw new Error(`a line of ${request.path} was recorded ${1 + more.length} times`);
      score[verdict(write, request)]++;
      if (write?.trace_id) attributions.add(`${write.attribution.source} ${write.attribution.quality}`);
    }
  }
  return { ...scores, attributions: [...attributions].sort() };
}

function verdict(write: SysWriteEvent | undefined, { trace, span }: Request): keyof Score {
  if (!write) return 'missing';
  // Without a header nobody's is right. A marker names no span.
  if (write.trace_id === trace && (write.span_id ?? span) === span) return 'right';
  return write.trace_id === null ? 'none' : 'wrong';
}
