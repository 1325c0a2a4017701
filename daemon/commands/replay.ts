/** `kreplay replay`: plays a transaction at a terminal, or into a pipeline. */
import type { IncomingMessage } from 'node:http';
import { Command, InvalidArgumentError, Option } from 'commander';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { parseDuration } from '../../agent/recording/duration.ts';
import { parseJson } from '../json.ts';
import { EXTRA_LATENCY_NS_MAX, SPEED_FACTOR_MAX, SPEED_FACTOR_MIN } from '../replay/contract.ts';
import type { EndReason } from '../replay/stream.ts';
import { CommandError } from './command_error.ts';
import { callDaemon, DEFAULT_URL, readJson, readText } from './connection.ts';
import { daemonUrl, URL_HELP } from './option_values.ts';
import { newReplayText, type PlayedEvent, progressLine, type ReplaySession, summaryLine } from './replay_text.ts';
import { print } from './standard_output.ts';

const SESSIONS_PATH = '/api/replay/sessions';
const CLEAR_LINE = '\r\u001b[K';
const PROGRESS_INTERVAL_MS = 100;

interface Options {
  speed: number;
  extraLatency?: bigint;
  timeout?: bigint;
  url: string;
  output: 'text' | 'ndjson';
}

export function replayCommand(): Command {
  return new Command('replay')
    .description('replay a transaction on the clock, event by event')
    .argument('<transaction>', 'its id')
    .option('--speed <factor>', '2 is twice as fast, 0.5 half as fast', speedFactor, 1)
    .option('--extra-latency <duration>', 'added to every event, such as 50us, 2ms, 1.5s', extraLatency)
    .option('--timeout <duration>', 'tell what a caller with this deadline would not have waited for', timeout)
    .option('--url <url>', URL_HELP, daemonUrl, DEFAULT_URL)
    .addOption(
      new Option('--output <format>', 'ndjson is one event a line')
        .choices(['text', 'ndjson'])
        .default(process.stdout.isTTY ? 'text' : 'ndjson', 'text on a terminal, else ndjson'),
    )
    .action(replay);
}

async function replay(transactionId: string, options: Options): Promise<void> {
  const { url } = options;
  const body = {
    transaction_id: transactionId,
    speed_factor: options.speed,
    ...(options.extraLatency !== undefined && { extra_latency_ns: options.extraLatency }),
    ...(options.timeout !== undefined && { timeout_ns: options.timeout }),
  };
  const created = await callDaemon(url, { method: 'POST', path: SESSIONS_PATH, body });
  const session = (await readJson(created)) as ReplaySession;
  const path = `${SESSIONS_PATH}/${session.session_id}`;
  // Read to the end: an answer left unread keeps its connection, and so this process, alive for seconds.
  const send = async (method: string, at: string) => void (await readText(await callDaemon(url, { method, path: at })));

  let interrupted = false;
  const interrupt = () => {
    interrupted = true;
    // The stream ends with it. If the daemon is gone, so does the stream.
    send('POST', `${path}/stop`).catch(() => {});
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, interrupt);
  try {
    const stream = await callDaemon(url, { path: `${path}/events`, accept: 'text/event-stream' });
    await send('POST', `${path}/play`);
    await printEvents(stream, session, options);
    if (interrupted) process.exitCode = 1;
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, interrupt);
    // Without it the daemon would keep the session for a day; that it is unreachable has been said already.
    await send('DELETE', path).catch(() => {});
  }
}

/** Prints events until the daemon says `end`. */
async function printEvents(stream: IncomingMessage, created: ReplaySession, { output }: Options): Promise<void> {
  const text = newReplayText();
  const progress = newProgress(created);
  let session = created;
  for await (const { event, data } of messages(stream)) {
    if (event === 'state') session = parseJson(data) as ReplaySession;
    else if (event === 'gap') {
      progress.clear();
      process.stderr.write(`kreplay: warning: missed frames of the stream, too slow to read them: ${data}\n`);
    } else if (event === 'event') {
      const played = parseJson(data) as PlayedEvent;
      progress.clear();
      // NDJSON as the daemon wrote it: nothing in between could round a number.
      await print(output === 'text' ? text.lines([played]) : `${data}\n`);
      progress.show(played);
    } else if (event === 'end') {
      progress.clear();
      process.stderr.write(`${summaryLine(session)}\n`);
      const { reason } = parseJson(data) as { reason: EndReason };
      if (session.failure !== null) throw new CommandError(`the replay was cut short: ${session.failure}`);
      if (reason === 'finished' || reason === 'stopped') return;
      throw new CommandError(`the daemon ended the session (${reason})`);
    }
  }
  throw new CommandError('the stream broke off before the end of the replay');
}

function newProgress(session: ReplaySession) {
  let shownAtMs = Number.NEGATIVE_INFINITY;
  let shown = false;
  return {
    clear() {
      if (shown) process.stderr.write(CLEAR_LINE);
      shown = false;
    },
    show(played: PlayedEvent) {
      if (!process.stderr.isTTY) return;
      // Where events and progress share a terminal, every event has wiped the line.
      const nowMs = performance.now();
      if (!process.stdout.isTTY && nowMs - shownAtMs < PROGRESS_INTERVAL_MS) return;
      shownAtMs = nowMs;
      shown = true;
      process.stderr.write(`\r${progressLine(session, played)}`);
    },
  };
}

async function* messages(stream: IncomingMessage): AsyncGenerator<EventSourceMessage, void> {
  let parsed: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => parsed.push(message) });
  stream.setEncoding('utf8');
  try {
    for await (const chunk of stream) {
      parser.feed(chunk);
      const ready = parsed;
      parsed = [];
      yield* ready;
    }
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`the stream broke off: ${(error as Error).message}`);
  }
}

function speedFactor(value: string): number {
  const factor = /^\d+(\.\d+)?$/.test(value) ? Number(value) : Number.NaN;
  if (factor >= SPEED_FACTOR_MIN && factor <= SPEED_FACTOR_MAX) return factor;
  throw new InvalidArgumentError(`must be a number from ${SPEED_FACTOR_MIN} to ${SPEED_FACTOR_MAX}`);
}

function extraLatency(value: string): bigint {
  const ns = parseDuration(value);
  if (ns !== undefined && ns <= EXTRA_LATENCY_NS_MAX) return ns;
  throw new InvalidArgumentError('must be a duration with its unit, such as 50us, 2ms or 1.5s, and at most 1h');
}

function timeout(value: string): bigint {
  const ns = parseDuration(value);
  if (ns !== undefined && ns > 0n) return ns;
  throw new InvalidArgumentError('must be a duration above 0 with its unit, such as 250ms or 1.5s');
}
