/** The interactive player: converts keys to requests to the session, and draws the session's frames. */

import { setTimeout as delay } from 'node:timers/promises';
import { parseJson } from '../../base/exact_json.ts';
import { STEP_EVENTS_MAX } from '../../contract/replay_requests.ts';
import { createLayoutWatch } from '../../model/layout_changes.ts';
import { CommandError, RefusedError } from '../client/command_error.ts';
import { callDaemon, readText } from '../client/connection.ts';
import { endOnSignals } from './ending.ts';
import { EXIT } from './exit_codes.ts';
import { type Action, chooseAction, type KeyPress } from './keys.ts';
import { ASCII, UNICODE } from './lanes.ts';
import { formatSummaryLine } from './played_text.ts';
import { computePositionNs, createPlayer, type ShownPlayer } from './player_state.ts';
import { endError, RECONNECT_ATTEMPTS, type RemoteSession, type SessionFrame } from './remote_session.ts';
import { findNextZoom, renderScreen } from './screen.ts';
import type { Stop, StopRule } from './stop_rule.ts';
import { toAnsi } from './styled_text.ts';
import { openTerminal, writesUnicode } from './terminal.ts';
import { readAhead } from './time_line.ts';

const PAINT_INTERVAL_MS = 40;
/** Maximum number of requests that wait while the daemon handles earlier ones, because a held key creates many. */
const WAITING_REQUESTS_MAX = 4;

const now = () => performance.now();

/** Runs the player until the user quits; returns the exit code. Throws a CommandError if the session ends earlier. */
export async function playOnScreen(remote: RemoteSession, stopAt: StopRule): Promise<number> {
  const player = createPlayer(remote.created, now());
  const left = Promise.withResolvers<number>();
  const reading = new AbortController();
  const queue = createQueue((message) => {
    player.state.message = message;
  });
  const ending = endOnSignals(() => left.resolve(EXIT.interrupted));
  const hands = { remote, queue, leave: left.resolve, columns: () => terminal.size.columns };
  const terminal = openTerminal({
    onKey: (key) => act(player, key, hands),
    onResize: () => paint(),
    onGone: () => left.resolve(EXIT.interrupted),
  });
  const glyphs = writesUnicode(process.env) ? UNICODE : ASCII;
  function paint(): void {
    const lines = renderScreen(player.state, terminal.size, now(), glyphs);
    terminal.paint(lines.map((line) => toAnsi(line, terminal.hasColours)));
  }
  const painting = setInterval(paint, PAINT_INTERVAL_MS);
  try {
    const toCome = createUpcomingEvents(player, remote, { signal: reading.signal, onFailure: left.reject });
    follow(player, remote, { queue, stopAt, toCome }).then((error) => left.reject(error), left.reject);
    toCome.read();
    readTitle(player, remote, reading.signal).catch(left.reject);
    return await left.promise;
  } finally {
    clearInterval(painting);
    reading.abort();
    remote.close();
    terminal.close();
    const view = await stopReplay(player, remote);
    if (!terminal.isGone) process.stderr.write(`${formatSummaryLine(view)}\n`);
    ending.release();
  }
}

/** Stops the replay and returns its final state; returns the last known state if the daemon does not answer. */
async function stopReplay({ state }: ShownPlayer, remote: RemoteSession) {
  if (state.session.state === 'finished') return state.session;
  try {
    return await remote.send({ command: 'stop' });
  } catch {
    return { ...state.session, state: 'stopped' as const, lateness: state.lateness };
  }
}

interface Hands {
  remote: RemoteSession;
  queue: Queue;
  leave: (exitCode: number) => void;
  columns: () => number;
}

function act({ state, showAnswer }: ShownPlayer, key: KeyPress, { remote, queue, leave, columns }: Hands): void {
  const chooseKeyAction = (): Action | null => {
    const { session } = state;
    const placeNs = BigInt(Math.floor(computePositionNs(state, now())));
    return chooseAction(key, { session, positionNs: placeNs, durationNs: state.endNs });
  };
  const kind = chooseKeyAction()?.kind;
  state.message = '';
  if (kind === 'quit') leave(EXIT.played);
  else if (kind === 'interrupt') leave(EXIT.interrupted);
  else if (kind === 'help') state.helpShown = !state.helpShown;
  else if (kind === 'zoom in') state.zoom = findNextZoom(state, 1, columns());
  else if (kind === 'zoom out') state.zoom = findNextZoom(state, -1, columns());
  else
    queue.add(async () => {
      // The action is chosen only when its turn comes, because earlier requests may change the meaning of the key.
      const asked = chooseKeyAction();
      if (asked?.kind === 'send') showAnswer(await remote.send(asked.request), now());
    });
}

interface FollowState {
  queue: Queue;
  stopAt: StopRule;
  toCome: UpcomingEvents;
}

/** Shows the frames of the session; returns an error with the reason for their end. */
async function follow(player: ShownPlayer, remote: RemoteSession, following: FollowState): Promise<CommandError> {
  const { queue, stopAt, toCome } = following;
  const { state } = player;
  const isLaidOutAnew = createLayoutWatch(remote.created);
  let begun = false;
  let stopping = false;

  async function stopBehind(stop: Stop): Promise<void> {
    try {
      await halt(player, remote, stop);
      state.message = `paused after ${stop.text}`;
    } finally {
      stopping = false;
    }
  }

  function show(frame: SessionFrame): CommandError | null {
    state.lastFrameId = frame.id ?? state.lastFrameId;
    if (frame.kind === 'state') player.showSession(frame.session, now());
    else if (frame.kind === 'gap' && frame.missed === null) state.message = 'the daemon was started again';
    else if (frame.kind === 'gap') state.message = `missed ${frame.missed} frames, too slow to read them`;
    else if (frame.kind === 'lost')
      state.message = `${frame.cause}; trying again, ${frame.attempt} of ${RECONNECT_ATTEMPTS}`;
    else if (frame.kind === 'event') {
      player.showEvent(frame.played, now());
      const stop = state.session.state === 'playing' && !stopping ? stopAt(frame.played) : null;
      stopping ||= stop !== null;
      if (stop) queue.addFirst(() => stopBehind(stop));
    } else return endError(frame.reason, state.session);
    return null;
  }

  let lost = false;
  for await (const frame of remote.frames()) {
    if (lost && frame.kind !== 'lost') state.message = '';
    lost = frame.kind === 'lost';
    const error = show(frame);
    if (error) return error;
    if (isLaidOutAnew(frame)) toCome.readAgain();
    // The session starts to play only after the stream is open, because its first event may be due immediately.
    if (!begun && frame.kind === 'state') {
      begun = true;
      queue.add(async () => player.showAnswer(await remote.send({ command: 'play' }), now()));
    }
  }
  // The frames end without a reason only if the player closed the session because the user had quit.
  return new CommandError('the replay was left', EXIT.interrupted);
}

/**
 * Pauses right after an event. The daemon may have played further events that were not shown, or may have reached the
 * end of the replay.
 */
async function halt(player: ShownPlayer, remote: RemoteSession, { index }: Stop): Promise<void> {
  const next = index + 1;
  let reached = player.state.session.event_count;
  try {
    const paused = await remote.send({ command: 'pause' });
    player.showAnswer(paused, now());
    reached = paused.event_index;
  } catch (error) {
    if (!(error instanceof RefusedError) || error.code !== 'invalid_transition') throw error;
  }
  // Steps back instead of seeking. A seek would recompute the time line with the current latency, and the index might
  // then refer to another event.
  while (reached > next) {
    const stepped = await remote.send({ step: Math.max(next - reached, -STEP_EVENTS_MAX) });
    player.showAnswer(stepped, now());
    reached = stepped.event_index;
  }
}

/** Reads the transaction's services, nodes and start time for the title. */
async function readTitle({ state }: ShownPlayer, { url }: RemoteSession, signal: AbortSignal): Promise<void> {
  try {
    const path = `/api/transactions/${encodeURIComponent(state.session.transaction_id)}`;
    const text = await readText(await callDaemon(url, { path, signal }));
    const found = parseJson(text) as { services: string[]; nodes: string[]; first_timestamp_ns: number | bigint };
    state.services = found.services;
    state.nodes = found.nodes;
    state.firstTimestampNs = BigInt(found.first_timestamp_ns);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    // The replay continues without the names of services and nodes.
    if (!signal.aborted) state.message = error.message;
  }
}

interface Queue {
  /** Adds a request at the end, or drops it if too many are waiting. */
  add(request: () => Promise<void>): void;
  /** Adds a request in front of all waiting requests. */
  addFirst(request: () => Promise<void>): void;
}

/**
 * Creates a queue that runs one request at a time. If a request fails, the queue shows the error and continues with the
 * next request.
 */
function createQueue(tell: (message: string) => void): Queue {
  const waiting: (() => Promise<void>)[] = [];
  let busy = false;
  async function work(): Promise<void> {
    if (busy) return;
    busy = true;
    for (let request = waiting.shift(); request; request = waiting.shift()) {
      try {
        await request();
      } catch (error) {
        tell((error as Error).message);
      }
    }
    busy = false;
  }
  return {
    add(request) {
      if (waiting.length >= WAITING_REQUESTS_MAX) return;
      waiting.push(request);
      void work();
    },
    addFirst(request) {
      waiting.unshift(request);
      void work();
    },
  };
}

/* Reads the upcoming events from the daemon, and reads them again after a change of the time line. */

/**
 * Time without changes of the time line before the events are read again. A held key changes the time line many times
 * in a row.
 */
const REST_MS = 100;

export interface UpcomingEvents {
  /** Reads the events immediately; aborts a read that is in progress. */
  read(): void;
  readAgain(): void;
}

/**
 * Creates the reader of upcoming events. The marks of an earlier read stay until new ones replace them. `signal` ends
 * all reads.
 */
export function createUpcomingEvents(
  { state }: ShownPlayer,
  { url }: Pick<RemoteSession, 'url'>,
  { signal: ending, onFailure }: { signal: AbortSignal; onFailure: (error: unknown) => void },
): UpcomingEvents {
  let reading = new AbortController();

  async function readBehind(waitMs: number): Promise<void> {
    reading.abort();
    reading = new AbortController();
    const signal = AbortSignal.any([ending, reading.signal]);
    try {
      await delay(waitMs, undefined, { signal });
      await readAhead(url, state.session, state.threads, signal, (mark, index) => {
        state.ahead[index] = mark;
      });
    } catch (error) {
      if (signal.aborted) return;
      // On an error of the daemon, the replay continues without upcoming events.
      if (error instanceof CommandError) state.message = error.message;
      else onFailure(error);
    }
  }

  return {
    read: () => void readBehind(0),
    readAgain: () => void readBehind(REST_MS),
  };
}
