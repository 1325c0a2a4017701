/**
 * A replay session in the daemon, as its client sees it: sends commands, and receives frames over connections that may
 * break.
 */
import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { parseJson } from '../../base/exact_json.ts';
import type { SentSeekTarget } from '../../contract/target.ts';
import type { SessionView } from '../../replay/session/session_view.ts';
import type { EndReason, ReplayedEvent } from '../../replay/session/stream.ts';
import { CommandError, RefusedError } from '../client/command_error.ts';
import { callDaemon, readJson, readText } from '../client/connection.ts';
import { EXIT } from './exit_codes.ts';

/** The type `T` after reading it from JSON: a 64-bit integer is a number if a double represents it exactly. */
type Read<T> = { [Key in keyof T]: bigint extends T[Key] ? T[Key] | number : T[Key] };
export type ReplaySession = Omit<Read<SessionView>, 'lateness'> & { lateness: Read<SessionView['lateness']> };
export type ExactPlayedEvent = ApiEvent & { replay: Read<ReplayedEvent> };

export type SessionRequest =
  | { command: 'play' | 'pause' | 'stop' }
  | { seek: SentSeekTarget }
  | { step: number }
  | { change: { speed_factor: number } | { extra_latency_ns: bigint } };

/** A frame of the session; `id` increases from frame to frame. */
export type SessionFrame = { id?: number } & (
  | { kind: 'state'; session: ReplaySession }
  /** `json` is the event as the daemon wrote it, so that no number is rounded. */
  | { kind: 'event'; played: ExactPlayedEvent; json: string }
  /**
   * Frames were lost. `missed` is their number, or null if the daemon was restarted; the session then continues with
   * the next state.
   */
  | { kind: 'gap'; missed: number | null }
  | { kind: 'end'; reason: EndReason }
  /** The connection broke, and the client tries to reconnect. */
  | { kind: 'lost'; attempt: number; cause: string }
);

export interface RemoteSession {
  readonly url: string;
  /** The state of the session when it was created. */
  readonly created: ReplaySession;
  /**
   * Sends a request; returns the session's state after it. Throws a RefusedError if the daemon refuses the request, or
   * a CommandError if the daemon is unreachable.
   */
  send(request: SessionRequest): Promise<ReplaySession>;
  /**
   * Yields frames, beginning with the current state, until the session ends or `close` is called. The end of the replay
   * does not end the session, because the replay can be played again. After a broken connection, no frame is repeated,
   * and only frames that the daemon no longer keeps are missing; a `gap` frame reports them. After a restart of the
   * daemon, the session is back at its last saved state, which is at most about a second old.
   */
  frames(): AsyncGenerator<SessionFrame, void>;
  /** Ends `frames`. */
  close(): void;
  /** Deletes the session. Does nothing if the session no longer exists or the daemon is unreachable. */
  remove(): Promise<void>;
}

const SESSIONS_PATH = '/api/replay/sessions';
/**
 * Error codes after which the client tries again, because the session still exists or will exist again after the
 * daemon's restart.
 */
const PASSING: ReadonlySet<string | undefined> = new Set(['busy', 'shutting_down']);
/** Maximum number of attempts to reconnect. They take about 9 s, which is enough for a restart of the daemon. */
export const RECONNECT_ATTEMPTS = 8;
const RECONNECT_FIRST_MS = 100;
/** Maximum time to wait for an answer. The daemon answers immediately, so after this time the answer is lost. */
const ANSWER_MS_MAX = 10_000;
const RECONNECT_MAX_MS = 2000;

export async function createRemoteSession(url: string, body: object): Promise<RemoteSession> {
  const created = (await readJson(
    await callDaemon(url, { method: 'POST', path: SESSIONS_PATH, body }),
  )) as ReplaySession;
  const path = `${SESSIONS_PATH}/${created.session_id}`;
  const closing = new AbortController();
  return {
    url,
    created,
    async send(request) {
      const { method, at, body: sent } = buildCall(request);
      const signal = AbortSignal.timeout(ANSWER_MS_MAX);
      const answer = await readJson(await callDaemon(url, { method, path: path + at, body: sent, signal }));
      return 'step' in request ? (answer as { session: ReplaySession }).session : (answer as ReplaySession);
    },
    frames: () => readFrames(url, `${path}/events`, closing.signal),
    close: () => closing.abort(),
    async remove() {
      try {
        // The answer is read completely, because an unread answer would keep the connection and this process alive for
        // seconds.
        await readText(await callDaemon(url, { method: 'DELETE', path, signal: AbortSignal.timeout(ANSWER_MS_MAX) }));
      } catch (error) {
        if (!(error instanceof CommandError)) throw error;
      }
    },
  };
}

function buildCall(request: SessionRequest): { method: string; at: string; body: object } {
  if ('command' in request) return { method: 'POST', at: `/${request.command}`, body: {} };
  if ('seek' in request) return { method: 'POST', at: '/seek', body: request.seek };
  if ('step' in request) return { method: 'POST', at: '/step', body: { count: request.step } };
  return { method: 'PATCH', at: '', body: request.change };
}

async function* readFrames(url: string, path: string, signal: AbortSignal): AsyncGenerator<SessionFrame, void> {
  let lastId: string | undefined;
  let attempt = 0;
  while (!signal.aborted) {
    try {
      const headers = lastId === undefined ? {} : { 'last-event-id': lastId };
      const stream = await callDaemon(url, { path, accept: 'text/event-stream', headers, signal });
      let finished = false;
      for await (const message of readMessages(stream)) {
        attempt = 0;
        lastId = message.id ?? lastId;
        for (const frame of parseFrames(message)) {
          // The session may exist again after a restart of the daemon, so this end counts as a broken connection.
          if (frame.kind === 'end' && frame.reason === 'shutdown') throw new CommandError('the daemon has ended');
          yield { ...frame, ...(message.id && { id: Number(message.id) }) };
          if (frame.kind !== 'end') continue;
          if (frame.reason !== 'finished') return;
          finished = true;
        }
      }
      if (!finished) throw new CommandError('the stream broke off');
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof RefusedError && !PASSING.has(error.code)) throw createLostSessionError(error);
      if (++attempt > RECONNECT_ATTEMPTS) throw new CommandError((error as Error).message, EXIT.sessionLost);
      yield { kind: 'lost', attempt, cause: (error as Error).message };
      const waitMs = Math.min(RECONNECT_FIRST_MS * 2 ** (attempt - 1), RECONNECT_MAX_MS);
      await delay(waitMs, undefined, { signal }).catch(() => {});
    }
  }
}

function createLostSessionError(error: RefusedError): CommandError {
  const gone = error.code === 'session_not_found';
  const message = gone ? 'the session is gone: it was deleted, or the daemon was started again' : error.message;
  return new CommandError(message, EXIT.sessionLost);
}

function parseFrames({ event, data }: EventSourceMessage): SessionFrame[] {
  switch (event) {
    case 'state':
      return [{ kind: 'state', session: parseJson(data) as ReplaySession }];
    case 'event':
      return [{ kind: 'event', played: parseJson(data) as ExactPlayedEvent, json: data }];
    case 'gap':
      return [{ kind: 'gap', missed: (parseJson(data) as { missed: number | null }).missed }];
    case 'end':
      return [{ kind: 'end', reason: (parseJson(data) as { reason: EndReason }).reason }];
    default:
      return [];
  }
}

async function* readMessages(stream: IncomingMessage): AsyncGenerator<EventSourceMessage, void> {
  let parsed: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (message) => parsed.push(message) });
  stream.setEncoding('utf8');
  for await (const chunk of stream) {
    parser.feed(chunk);
    const ready = parsed;
    parsed = [];
    yield* ready;
  }
}

/** Returns the error for a session that its client did not end; null if the session played to its end. */
export function endError(reason: EndReason, { failure }: ReplaySession): CommandError | null {
  const causes: Record<EndReason, string | null> = {
    finished: null,
    stopped: 'the session was stopped by another client',
    failed: `the replay was cut short: ${failure}`,
    deleted: 'the session was deleted by another client',
    expired: 'the daemon ended the session: it was unused for too long',
    shutdown: 'the daemon has ended',
  };
  const cause = causes[reason];
  return cause === null ? null : new CommandError(cause, EXIT.sessionLost);
}
