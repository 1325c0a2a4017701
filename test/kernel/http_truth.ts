/**
 * Measures how often the recorded trace of a write is that of the request that it was done for.
 *
 * A server writes two lines for each request, `before` and `after` a wait, into the request's own file, with the trace
 * that it took from the request's header: so every recorded write shows its request.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SysWriteEvent } from '../../bpf/schema/api.ts';
import { type Agent, type Recorded, readRecording, startAgent, temporaryFolder } from './recorded_run.ts';

const WAIT_MAX_MS = 20;
/** Time between the two parts of a divided request, so that the server reads them one by one. */
const PART_AFTER_MS = 5;
const LOOK_MS = 5;
const PATIENCE_MS = 20_000;
/** A recording is looked at less often than a file: its agent commits every quarter of a second. */
const RECORDING_LOOK_MS = 50;
const ATTEMPTS_MAX = 3;
/** Requests before those whose writes are scored: the server's threads exist then, and have shown what they do. */
const earlyLoad = (name: string): Load => ({ name, concurrency: 16, requests: 32 });

export interface Server {
  /** The server's service has this name too. */
  name: string;
  command: readonly [string, ...string[]];
}

export interface RequestShape {
  /** If false, the request has no header and its writes have no owner. */
  traced?: boolean;
  method?: string;
  /** Time between the two lines. */
  waitMs?: number;
  /** Size of a cookie before the header. */
  cookieBytes?: number;
  body?: string;
  /** The request has nothing but its first line, a host, and what the other fields here ask for. */
  bare?: boolean;
  /** The request is cut in two before this text: the second part is sent a moment later. */
  cutBefore?: string;
  /**
   * How the next request follows: on the same connection, when this one is answered (`keep`) or together with this one
   * (`pipeline`); or on another connection, when this one is answered (`close`) or given up (`reset`).
   */
  ending?: 'keep' | 'pipeline' | 'close' | 'reset';
}

/** Requests that are sent one after another on each of several connections. */
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
  /** Writes that were not recorded. */
  missing: number;
}

/** Writes before and after the wait. */
export interface Scores {
  before: Score;
  after: Score;
  /** Source and quality of the writes that have a trace. */
  attributions: string[];
}

/** An agent for many servers: each takes one of the names whose requests the agent looks at. */
export interface SharedAgent {
  agent: Agent;
  names: Iterator<string>;
}

export interface RunOptions {
  /** The agent that records. */
  shared: SharedAgent | undefined;
  /** The server's service has this after the name that the agent knows. */
  nameEnd?: string;
}

interface Request {
  path: string;
  trace: string | null;
  span: string | null;
  text: string;
  /** The lines that the server writes. */
  lines: readonly [before: string, after: string];
  shape: RequestShape;
}

/** `flagsOf` returns the agent's options, from the names of that many servers. */
export async function startSharedAgent(
  servers: number,
  flagsOf = (names: readonly string[]) => ['--http-services', ...names],
): Promise<SharedAgent> {
  const names = Array.from({ length: servers }, (_, number) => `server-${number}`);
  const agent = await startAgent(temporaryFolder(), flagsOf(names));
  return { agent, names: names.values() };
}

/** Returns the scores of each load by its name. */
export async function scoreServer(
  server: Server,
  loads: readonly Load[],
  { shared, nameEnd = '' }: RunOptions,
): Promise<Record<string, Scores>> {
  const { dataFolder } = shared!.agent;
  for (let attempt = 1; ; attempt++) {
    const { value, done } = shared!.names.next();
    if (done) throw new Error('the shared agent knows no more names: start it for more servers');
    const run = runOf({ ...server, name: `${value}${nameEnd}` }, loads);
    try {
      const lostBefore = definitionsLost(readRecording(dataFolder));
      await runRecorded(run, dataFolder);
      const recorded = await readToEnd(run, dataFolder);
      // Another process on this host has flooded the agent with names: it has lost some definitions, and reports that.
      if (definitionsLost(recorded) > lostBefore && attempt < ATTEMPTS_MAX) continue;
      return scoresOf(run, recorded);
    } finally {
      rmSync(run.folder, { recursive: true });
    }
  }
}

/** Scores servers that have served requests before their agent starts, by their names. */
export async function scoreFoundServers(
  servers: readonly { server: Server; loads: readonly Load[] }[],
): Promise<Record<string, Record<string, Scores>>> {
  const runs = servers.map(({ server, loads }) => runOf(server, loads));
  const dataFolder = temporaryFolder();
  const started = await Promise.all(runs.map(startServer));
  let agent: Agent | undefined;
  try {
    await Promise.all(runs.map(({ written }, i) => sendEarly('early-first', started[i]!.port, written)));
    agent = await startAgent(dataFolder, ['--http-services', ...servers.map(({ server }) => server.name)]);
    await Promise.all(
      runs.map(async ({ loads, requests, written }, i) => {
        await sendEarly('early', started[i]!.port, written);
        await sendAll(loads, requests, started[i]!.port, written);
      }),
    );
  } finally {
    await Promise.all([agent?.stop(), ...started.map(({ stop }) => stop())]);
  }
  const recorded = readRecording(dataFolder);
  return Object.fromEntries(runs.map((run) => [run.server.name, scoresOf(run, recorded)]));
}

const definitionsLost = (recorded: Recorded) =>
  recorded.losses().reduce((sum, { cause, lost }) => sum + (cause === 'definition_lost' ? lost : 0), 0);

interface Run {
  server: Server;
  loads: readonly Load[];
  requests: readonly (readonly Request[])[];
  folder: string;
  /** Folder that the server writes to. */
  written: string;
  /** Before everything that it did. */
  fromNs: bigint;
}

function runOf(server: Server, loads: readonly Load[]): Run {
  const folder = temporaryFolder();
  const written = join(folder, 'written');
  mkdirSync(written);
  return { server, loads, requests: loads.map(requestsOf), folder, written, fromNs: BigInt(Date.now()) * 1_000_000n };
}

function scoresOf({ server, loads, requests, written, fromNs }: Run, recorded: Recorded): Record<string, Scores> {
  const own = recorded.writes({ services: [server.name], fromNs });
  const writes = Map.groupBy(own, ({ file }) => file);
  const scores = loads.map(({ name }, i) => [name, scoreRequests(requests[i]!, written, writes)] as const);
  return Object.fromEntries(scores);
}

/** Sends all loads to a server that the agent sees from its start, and that has served others before. */
async function runRecorded(run: Run, dataFolder: string): Promise<void> {
  const { server, loads, requests, written, fromNs } = run;
  const { port, stop } = await startServer(run);
  try {
    // The agent knows the process once the write of its port is recorded.
    const { writes } = readRecording(dataFolder);
    await until(() => writes({ services: [server.name], fromNs }).length > 0, RECORDING_LOOK_MS);
    await sendEarly('early', port, written);
    await sendAll(loads, requests, port, written);
  } finally {
    await stop();
  }
}

async function sendAll(loads: readonly Load[], requests: Run['requests'], port: number, written: string) {
  for (const [i, load] of loads.entries()) await send(load, requests[i]!, port, written);
}

function sendEarly(name: string, port: number, written: string): Promise<void> {
  const early = earlyLoad(name);
  return send(early, requestsOf(early), port, written);
}

/** Returns the recording once it has a write that follows all others. */
async function readToEnd(run: Run, dataFolder: string): Promise<Recorded> {
  const last = join(run.folder, 'last');
  const fromNs = BigInt(Date.now()) * 1_000_000n;
  writeFileSync(last, 'x');
  const recorded = readRecording(dataFolder);
  await until(() => recorded.writes({ pid: process.pid, fromNs }).some(({ file }) => file === last), RECORDING_LOOK_MS);
  return recorded;
}

async function startServer({ server: { name, command }, written }: Run) {
  const [file, ...args] = command.map((arg) => (arg === 'FOLDER' ? written : arg)) as [string, ...string[]];
  const server = spawn(file, args, {
    env: { PATH: process.env.PATH, OTEL_SERVICE_NAME: name },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(server, 'exit');
  const [line] = await Promise.race([
    once(server.stdout.setEncoding('utf8'), 'data'),
    ended.then(() => Promise.reject(new Error(`${name} ended before it served`))),
  ]);
  return {
    port: Number(line),
    async stop() {
      server.stdin.end();
      await ended;
    },
  };
}

async function until(holds: () => boolean, lookMs = LOOK_MS): Promise<void> {
  for (let looks = 0; !holds(); looks++) {
    if (looks * lookMs > PATIENCE_MS) throw new Error(`not within ${PATIENCE_MS} ms: ${holds}`);
    await sleep(lookMs);
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
  // The server still works on requests that the client gave up.
  const isWritten = ({ path, lines }: Request) => readFileSync(written + path, 'latin1') === lines.join('');
  for (const request of requests) await until(() => isWritten(request));
}

interface Connection {
  write(text: string): void;
  /** Resolves when this number of answers has arrived. */
  answers(count: number): Promise<void>;
  close(reset?: boolean): void;
}

/** Connects to a server whose answers have no body. */
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
  // Without a header, no trace is right. A marker names no span.
  if (write.trace_id === trace && (write.span_id ?? span) === span) return 'right';
  return write.trace_id === null ? 'none' : 'wrong';
}
