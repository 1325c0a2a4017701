/** Reads the daemon's server-sent events, and connects again after a connection breaks. */
import type { Daemon } from './daemon.ts';
import { type Failure, toFailure } from './failure.ts';
import { createMessageReader, type EventSourceMessage } from './messages.ts';

/**
 * How a message ends its connection: after `again` the page opens a new connection, and after `over` it does not,
 * because no more messages will come.
 */
export type ConnectionEnding = 'again' | 'over';

export interface EventStream {
  /** Returns the path for the next connection. */
  path: () => string;
  /** Id of the newest message that the page has received; null before the first message. */
  lastId: string | null;
  onOpen?: (response: Response) => void;
  /** Handles a message. Returns how the message ends the connection; undefined if the connection goes on. */
  onMessage: (message: EventSourceMessage) => ConnectionEnding | undefined;
  /** Called when a connection breaks or is refused, before the next attempt. */
  onLost: (failure: Failure) => void;
  /** Codes of failures after which the page does not connect again. */
  final: ReadonlySet<string>;
}

/** Longest silence before a connection counts as broken. The daemon sends something at least every 15 seconds. */
const SILENCE_MS_MAX = 40_000;
/** Time after which the reading of a backlog pauses, so that the browser can draw and handle input. */
const WORK_MS_MAX = 10;

/**
 * Reads a stream until the signal aborts or the stream is over. Resolves to the failure that ended the stream, or to
 * null. Each new connection sends the id of the last message, so that the daemon continues after that message.
 */
export async function followStream(daemon: Daemon, stream: EventStream, signal: AbortSignal): Promise<Failure | null> {
  let { lastId: seen } = stream;
  let attempt = 0;
  while (!signal.aborted) {
    const silence = new AbortController();
    let ending: ConnectionEnding | undefined;
    let waitMs = 0;
    try {
      const response = await daemon.ask(stream.path(), {
        headers: { Accept: 'text/event-stream', ...(seen !== null && { 'Last-Event-ID': seen }) },
        signal: AbortSignal.any([signal, silence.signal]),
      });
      if (signal.aborted) return null;
      stream.onOpen?.(response);
      await readMessages(response, silence, signal, (message) => {
        attempt = 0;
        if (message.id) seen = message.id;
        ending = stream.onMessage(message) ?? ending;
      });
      if (ending === 'over') return null;
      if (ending === undefined && !signal.aborted) stream.onLost(toFailure(new Error('the stream was cut')));
    } catch (error) {
      if (signal.aborted) return null;
      const failure = toFailure(error);
      if (stream.final.has(failure.code)) return failure;
      waitMs = 1000 * (failure.retryAfter_s ?? 0);
      stream.onLost(failure);
    }
    await delay(Math.max(retryMs(attempt++), waitMs), signal);
  }
  return null;
}

/** Returns the time to wait before the next attempt, in milliseconds; the first attempt is number 0. */
export function retryMs(attempt: number): number {
  return RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)]!;
}

const RETRY_MS = [250, 1000, 2000, 5000, 10_000] as const;

async function readMessages(
  response: Response,
  silence: AbortController,
  signal: AbortSignal,
  onEvent: (message: EventSourceMessage) => void,
): Promise<void> {
  const readPart = createMessageReader((message) => {
    // A message that arrives after the abort is dropped: its id is not stored, so that a later stream reads it again.
    if (!signal.aborted) onEvent(message);
  });
  let timer: ReturnType<typeof setTimeout> | undefined;
  let restedMs = performance.now();
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
      const part = await reader.read();
      if (part.done) return;
      readPart(part.value);
      if (performance.now() - restedMs < WORK_MS_MAX) continue;
      await delay(0, signal);
      restedMs = performance.now();
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves after `ms` milliseconds, or when the signal aborts. */
export function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    if (signal.aborted) end();
    else signal.addEventListener('abort', end);
  });
}
