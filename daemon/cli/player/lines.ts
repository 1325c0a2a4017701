/** Prints a replay as one line per event, into a pipeline or onto a terminal without a screen. */
import { once } from 'node:events';
import { type EndSignal, endOnSignals, type SignalWatch } from './ending.ts';
import { EXIT } from './exit_codes.ts';
import { createPlayedTable, formatProgressLine, formatSummaryLine } from './played_text.ts';
import { type ExactPlayedEvent, endError, type RemoteSession, type ReplaySession } from './remote_session.ts';
import type { Stop, StopRule } from './stop_rule.ts';

const CLEAR_LINE = '\r\u001b[K';
const PROGRESS_INTERVAL_MS = 100;

/**
 * Plays and prints the replay; returns the exit code. Throws a CommandError if the replay failed, or if the session was
 * stopped by another client, deleted or lost before the end.
 */
export async function printReplay(
  session: RemoteSession,
  stopAt: StopRule,
  output: 'text' | 'ndjson',
): Promise<number> {
  const ending = endOnSignals((signal) => {
    // If the reader is gone, the session is closed immediately. Otherwise, the stop command ends the stream; if that
    // command fails, the session is closed too.
    if (hasNoReader(signal)) session.close();
    else session.send({ command: 'stop' }).catch(() => session.close());
  });
  try {
    return await printFrames(session, stopAt, output, ending);
  } catch (error) {
    if (ending.signal === undefined || !hasNoReader(ending.signal)) throw error;
    return exitCode(ending);
  } finally {
    ending.release();
  }
}

async function printFrames(
  remote: RemoteSession,
  stopAt: StopRule,
  output: 'text' | 'ndjson',
  ending: SignalWatch,
): Promise<number> {
  const table = createPlayedTable();
  const progress = createProgress(remote.created);
  let session = remote.created;
  const say = (text: string) => {
    progress.clear();
    process.stderr.write(`${text}\n`);
  };
  let begun = false;
  /** Index of the next event to print. */
  let next = 0;
  /**
   * Whether the session had already finished when the stream was opened. Such a session reports its end once more
   * before it plays again.
   */
  let wasOver = false;
  for await (const frame of remote.frames()) {
    if (frame.kind === 'state') {
      session = frame.session;
      // The session starts to play only after the stream is open, because its first event may be due immediately.
      if (!begun) {
        wasOver = session.state === 'finished' && next < session.event_count;
        await playFrom(remote, session, next);
      }
      begun = true;
    } else if (frame.kind === 'gap' && frame.missed === null) {
      say('kreplay: warning: the daemon was started again; going on after the last event');
      // After the daemon's restart, the session is paused and may be at another position.
      begun = false;
    } else if (frame.kind === 'gap') say(`kreplay: warning: missed ${frame.missed} frames, too slow to read them`);
    else if (frame.kind === 'lost') say(`kreplay: warning: ${frame.cause}; trying again`);
    else if (frame.kind === 'event') {
      const { played, json } = frame;
      progress.clear();
      next = played.replay.index + 1;
      await write(output === 'text' ? table.lines([played]) : `${json}\n`);
      const stop = stopAt(played);
      if (stop) {
        say(formatSummaryLine(await stopBehind(remote, stop)));
        say(`kreplay: ended after ${stop.text}`);
        return stop.by === 'break' ? EXIT.broken : EXIT.played;
      }
      progress.show(played);
    } else if (wasOver) wasOver = false;
    else {
      const error = ending.signal === undefined ? endError(frame.reason, session) : null;
      if (error) throw error;
      say(formatSummaryLine(session));
      return exitCode(ending);
    }
  }
  return exitCode(ending);
}

async function playFrom(remote: RemoteSession, session: ReplaySession, index: number): Promise<void> {
  if (session.state === 'stopped') return;
  const isThere = session.event_index === index;
  const { state } = isThere ? session : await remote.send({ seek: { event_index: index } });
  if (state !== 'finished') await remote.send({ command: 'play' });
}

function hasNoReader(signal: EndSignal): boolean {
  return signal === 'SIGPIPE' || signal === 'SIGHUP';
}

/** Returns the exit code. A reader that closed the output has read enough, so this counts as success. */
function exitCode({ signal }: SignalWatch): number {
  return signal === undefined || signal === 'SIGPIPE' ? EXIT.played : EXIT.interrupted;
}

/**
 * Stops the session. The daemon may have played events after the stop event; these are not printed, so the returned
 * `event_index` does not count them.
 */
async function stopBehind(remote: RemoteSession, { index }: Stop): Promise<ReplaySession> {
  return { ...(await remote.send({ command: 'stop' })), event_index: index + 1 };
}

function createProgress(session: ReplaySession) {
  let shownAtMs = Number.NEGATIVE_INFINITY;
  let shown = false;
  return {
    clear() {
      if (shown) process.stderr.write(CLEAR_LINE);
      shown = false;
    },
    show(played: ExactPlayedEvent) {
      if (!process.stderr.isTTY) return;
      // If standard output is also a terminal, `clear` has just erased the progress line, so the progress line is
      // always drawn again.
      const nowMs = performance.now();
      if (!process.stdout.isTTY && nowMs - shownAtMs < PROGRESS_INTERVAL_MS) return;
      shownAtMs = nowMs;
      shown = true;
      process.stderr.write(`\r${formatProgressLine(session, played)}`);
    },
  };
}

async function write(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain');
}
