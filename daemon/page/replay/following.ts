/** Follows a replay session while the tab is shown: with a stream, or by polling if other tabs use all streams. */
import type { ReceivedSession } from '../../contract/received.ts';
import type { Daemon } from '../api/daemon.ts';
import { delay, retryMs } from '../api/event_stream.ts';
import { type Failure, toFailure } from '../api/failure.ts';
import { createShownSignal, takeSlot, waitUntilShown } from '../api/stream_slot.ts';
import { FINAL, type Frame, type FrameChoice, follow } from './stream.ts';

/** Time between two polls by a tab that has no stream. */
const POLL_MS = 1000;

export interface SessionFollower {
  /** Chooses the frames that the daemon sends: events or positions. */
  want(wanted: FrameChoice): void;
}

interface Options {
  daemon: Daemon;
  sessionId: string;
  /** Aborts when the session should no longer be followed. */
  closing: AbortSignal;
  /** Called with the session's state whenever the state was requested; the first request comes at the beginning. */
  onRead: (session: ReceivedSession) => void;
  onFrame: (frame: Frame) => void;
  /** Called when following has ended, with the failure if there is one. */
  onEnd: (failure: Failure | null) => void;
}

export function startFollowing({ daemon, sessionId, closing, onRead, onFrame, onEnd }: Options): SessionFollower {
  /** Id of the newest frame that this page has received. */
  let newestId = 0;
  let [wanted, followed]: FrameChoice[] = ['events', 'events'];
  /** Ends the stream when `wanted` changes. */
  let changing = new AbortController();
  let ended: Failure | null = null;

  async function run(): Promise<void> {
    for (let [attempt, isOver] = [0, false]; !isOver && !closing.aborted; ) {
      try {
        await read();
        attempt = 0;
        while (!isOver && !closing.aborted) isOver = await followWhileShown();
      } catch (error) {
        const failure = toFailure(error);
        if (FINAL.has(failure.code)) [ended, isOver] = [failure, true];
        else if (!closing.aborted) onFrame({ kind: 'lost', failure });
        if (!isOver) await delay(retryMs(attempt++), closing);
      }
    }
    if (!closing.aborted) onEnd(ended);
  }

  async function read(): Promise<void> {
    const session = await daemon.askJson<ReceivedSession>(`/api/replay/sessions/${sessionId}`, { signal: closing });
    newestId = session.last_event_id;
    onRead(session);
  }

  function takeFrame(frame: Frame): void {
    if ('id' in frame) newestId = frame.id;
    onFrame(frame);
  }

  /**
   * Follows the session until the tab is hidden; frames that are missed meanwhile arrive with the next stream.
   * Resolves to true if following has ended.
   */
  async function followWhileShown(): Promise<boolean> {
    await waitUntilShown(closing);
    const release = await takeSlot();
    if (!release) return poll();
    followed = wanted!;
    changing = new AbortController();
    const signal = AbortSignal.any([createShownSignal(closing), changing.signal]);
    ended = await follow(daemon, sessionId, newestId, takeFrame, signal, followed).finally(release);
    const isOver = !signal.aborted;
    // A stream of positions contains no events, so reading the state after it makes up for the missed events. After the
    // end of a stream, the state is read because the session may no longer exist.
    if (!ended && !closing.aborted && (followed === 'positions' || isOver)) await read();
    return isOver;
  }

  /** Reads the state and waits, for a tab without a stream. */
  async function poll(): Promise<boolean> {
    await read();
    await delay(POLL_MS, closing);
    return false;
  }

  void run();
  return {
    want(kind) {
      wanted = kind;
      if (wanted !== followed) changing.abort();
    },
  };
}
