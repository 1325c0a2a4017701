/**
 * Measures a replay in the page against a witness: a client of the same session, which notes when each event arrives and
 * asks the daemon where its clock is.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import type { BenchBrowser } from './page_browser.ts';
import type { PageDaemon } from './page_daemon.ts';
import { p95, USUAL } from './page_views.ts';

const SESSIONS = '/api/replay/sessions';
const ASK_EVERY_MS = 50;
const CLOCK_READINGS = 30;

export interface Playback {
  /** From an event's arrival at the witness to the end of the frame that lights it: 95th percentile, milliseconds. */
  litMs: number;
  /** Distance of the playhead from the daemon's position: 95th percentile, milliseconds. */
  playheadMs: number;
  /** Number of frames of the screen in which the picture changed. */
  frames: number;
}

interface Frame {
  endMs: number;
  litMs: number;
  playheadMs: number;
  playheadPx: number;
  /** Number of events that have been played. */
  count: number;
}

interface Position {
  ms: number;
  positionMs: number;
}

export async function measurePlayback(
  browser: BenchBrowser,
  daemon: PageDaemon,
  transactionId: string,
  signal: AbortSignal,
): Promise<Playback> {
  const { session_id } = await daemon.ask(SESSIONS, 'POST', { transaction_id: transactionId });
  const path = `${SESSIONS}/${session_id}`;
  const link = `${daemon.url}/#v=1&view=lanes&transaction=${transactionId}&session=${session_id}`;
  const opened = await browser.open(link, USUAL);
  const ending = new AbortController();
  try {
    await opened.page.waitForSelector('main[aria-busy=false] canvas.moving');
    await opened.page.waitForSelector('.replay .figures');
    const arrivedMs: number[] = [];
    const witness = followEvents(daemon.url + path, arrivedMs, AbortSignal.any([signal, ending.signal]));
    const aheadMs = await clockDifference(opened.page);
    await opened.probe('watchPlayback');
    await daemon.ask(`${path}/play`, 'POST', {});
    const positions: Position[] = [];
    for (;;) {
      const beforeMs = performance.now();
      const { state, position_ns } = await daemon.ask(path);
      positions.push({ ms: (beforeMs + performance.now()) / 2, positionMs: position_ns / 1e6 });
      if (state === 'finished') break;
      await sleep(ASK_EVERY_MS);
    }
    await sleep(200);
    ending.abort();
    await witness;
    const read = await opened.probe<Frame[]>('playback');
    return compared(
      read.map((frame) => onClockOf(frame, aheadMs)),
      arrivedMs,
      positions,
    );
  } finally {
    ending.abort();
    await opened.close();
  }
}

/** Notes when each event of the session arrives, by its index. */
async function followEvents(url: string, arrivedMs: number[], signal: AbortSignal): Promise<void> {
  try {
    const response = await fetch(`${url}/events`, { headers: { accept: 'text/event-stream' }, signal });
    let rest = '';
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
      const nowMs = performance.now();
      const frames = (rest + part).split('\n\n');
      rest = frames.pop()!;
      for (const frame of frames) {
        const index = /^event: ?event$/m.test(frame) && /"replay":\{"index":(\d+)/.exec(frame)?.[1];
        if (index) arrivedMs[Number(index)] ??= nowMs;
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** How far the page's clock is ahead of this process's: from the reading that took least. */
async function clockDifference(page: Page): Promise<number> {
  let [shortestMs, aheadMs] = [Number.POSITIVE_INFINITY, 0];
  for (let reading = 0; reading < CLOCK_READINGS; reading++) {
    const beforeMs = performance.now();
    const pageMs = (await page.evaluate('performance.now()')) as number;
    const afterMs = performance.now();
    if (afterMs - beforeMs >= shortestMs) continue;
    shortestMs = afterMs - beforeMs;
    aheadMs = pageMs - (beforeMs + afterMs) / 2;
  }
  return aheadMs;
}

function onClockOf(frame: Frame, aheadMs: number): Frame {
  const { endMs, litMs, playheadMs } = frame;
  return { ...frame, endMs: endMs - aheadMs, litMs: litMs - aheadMs, playheadMs: playheadMs - aheadMs };
}

function compared(frames: readonly Frame[], arrivedMs: readonly number[], positions: readonly Position[]): Playback {
  const lighting = frames.filter(({ litMs }, at) => at > 0 && litMs > frames[at - 1]!.endMs);
  const litAfterMs: number[] = [];
  let next = 0;
  for (const { count, endMs } of lighting)
    for (; next < count; next++) if (arrivedMs[next] !== undefined) litAfterMs.push(endMs - arrivedMs[next]!);

  // The playhead is at the start before the replay plays, and at the end when it is finished.
  const drawn = frames.filter(({ playheadMs }, at) => at > 0 && playheadMs > frames[at - 1]!.endMs);
  const [firstPx, lastPx] = [frames[0]!.playheadPx, drawn.at(-1)!.playheadPx];
  const endMs = positions.at(-1)!.positionMs;
  const offMs = positions.slice(1, -1).map(({ ms, positionMs }) => {
    const near = drawn.reduce((a, b) => (Math.abs(b.playheadMs - ms) < Math.abs(a.playheadMs - ms) ? b : a));
    const shownMs = ((near.playheadPx - firstPx) / (lastPx - firstPx)) * endMs;
    return Math.abs(shownMs - (positionMs + near.playheadMs - ms));
  });
  return { litMs: p95(litAfterMs), playheadMs: p95(offMs), frames: drawn.length };
}
