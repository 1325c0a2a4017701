/** Server-sent events of the daemon, over connections that may break. */
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import type { Daemon } from './daemon.ts';
import { type Failure, toFailure } from './failure.ts';

/** How a message ends its connection: `again` asks for a new connection, `over` says that nothing more will come. */
export type ConnectionEnding = 'again' | 'over';

export interface EventStream {
  /** Called for each connection. */
  path: () => string;
  /** Id of the newest message that is known; null for none. */
  lastId: string | null;
  onOpen?: (response: Response) => void;
  /** Returns how the message ends the connection, if it does. */
  onMessage: (message: EventSourceMessage) => ConnectionEnding | undefined;
  /** Called when a connection broke or was refused, and is tried again. */
  onLost: (failure: Failure) => void;
  /** Codes of failures after which asking again does not help. */
  final: ReadonlySet<string>;
}

/** A daemon sends something every 15 seconds, so silence for longer is a broken connection. */
const SILENCE_MS_MAX = 40_000;
/** Yields to the browser this often, so that a backlog does not freeze drawing and input. */
const WORK_MS_MAX = 10;

/**
 * Reads a stream until the signal aborts, or nothing more will come; resolves to the failure that ended the stream, or
 * to null. Messages sent while a connection was broken come with the next one, none twice.
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

/** Time to wait before a question is asked again, milliseconds; the first attempt is 0. */
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
  const parser = createParser({
    onEvent(message) {
      // Messages read after the abort are dropped: `seen` stays before them, so that they can be read again.
      if (!signal.aborted) onEvent(message);
    },
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
      parser.feed(part.value);
      if (performance.now() - restedMs < WORK_MS_MAX) continue;
      await delay(0, signal);
      restedMs = performance.now();
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves after a time, or when the signal aborts. */
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
