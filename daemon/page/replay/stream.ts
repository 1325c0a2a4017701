/** The frames of a session's stream, over connections that may break. */
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { parseJson } from '../../exact_json.ts';
import type { PlayedEvent, Session } from '../feed/answers.ts';
import type { Daemon } from '../feed/daemon.ts';
import { asFailure, type Failure } from '../feed/failure.ts';

export type Frame =
  | { kind: 'state'; id: number; session: Session }
  | { kind: 'event'; id: number; played: PlayedEvent }
  /** `missed` is null when the daemon was started again. */
  | { kind: 'gap'; missed: number | null }
  | { kind: 'end'; reason: string }
  /** The connection broke, and is tried again. */
  | { kind: 'lost'; failure: Failure };

const RETRY_MS = [250, 1000, 2000, 5000, 10_000] as const;
/** A daemon sends something every 15 seconds, so silence for longer is a broken connection. */
const SILENCE_MS_MAX = 40_000;
/** Failures after which asking again cannot help. */
const FINAL: ReadonlySet<string> = new Set(['unauthorized', 'forbidden', 'session_not_found', 'invalid_parameter']);
/** Ends after which the session plays no more. */
const OVER: ReadonlySet<string> = new Set(['stopped', 'failed', 'deleted', 'expired']);

/**
 * Gives the frames of a session to `taken` until the signal ends it, or the session is gone: resolves to the failure
 * then. Frames that were sent while a connection was broken come with the next one, none twice. `lastId` is the newest
 * frame that the page has seen, such as `last_event_id` of an answer; null begins with the present state.
 */
export async function follow(
  daemon: Daemon,
  sessionId: string,
  lastId: number | null,
  taken: (frame: Frame) => void,
  signal: AbortSignal,
): Promise<Failure | null> {
  let seen = lastId;
  let attempt = 0;
  while (!signal.aborted) {
    const silence = new AbortController();
    let end: string | null = null;
    try {
      const response = await daemon.ask(`/api/replay/sessions/${sessionId}/events`, {
        headers: { Accept: 'text/event-stream', ...(seen !== null && { 'Last-Event-ID': String(seen) }) },
        signal: AbortSignal.any([signal, silence.signal]),
      });
      await readFrames(response, silence, (message) => {
        attempt = 0;
        if (message.id) seen = Number(message.id);
        const frame = frameOf(message);
        if (frame?.kind === 'end') end = frame.reason;
        if (frame) taken(frame);
      });
      if (end !== null && OVER.has(end)) return null;
      if (end === null) taken({ kind: 'lost', failure: asFailure(new Error('the stream was cut')) });
    } catch (error) {
      if (signal.aborted) return null;
      const failure = asFailure(error);
      if (FINAL.has(failure.code)) return failure;
      taken({ kind: 'lost', failure });
    }
    await wait(RETRY_MS[Math.min(attempt++, RETRY_MS.length - 1)]!, signal);
  }
  return null;
}

async function readFrames(
  response: Response,
  silence: AbortController,
  onEvent: (message: EventSourceMessage) => void,
): Promise<void> {
  const parser = createParser({ onEvent });
  let timer: ReturnType<typeof setTimeout> | undefined;
  const listen = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
  };
  listen();
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      listen();
      parser.feed(part.value);
    }
  } finally {
    clearTimeout(timer);
  }
}

function frameOf({ id, event, data }: EventSourceMessage): Frame | null {
  if (event === 'state') return { kind: 'state', id: Number(id), session: parseJson(data) as Session };
  if (event === 'event') return { kind: 'event', id: Number(id), played: parseJson(data) as PlayedEvent };
  if (event === 'gap') return { kind: 'gap', missed: (parseJson(data) as { missed: number | null }).missed };
  if (event === 'end') return { kind: 'end', reason: String((parseJson(data) as { reason: string }).reason) };
  // Another kind of frame is of a newer daemon.
  return null;
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
