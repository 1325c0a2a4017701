/**
 * Measures the web page in Chromium, on recordings of a million events: how long pictures and answers take, what they
 * keep in memory, how smooth they move, and how soon they show what was done or played. Beside it, in the same run:
 * speedscope on the same events, a picture of rectangles, an empty picture, and another question to the daemon.
 */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { BenchContext, BenchResult } from './bench.ts';
import { allowedCpus } from './machine.ts';
import { writePaced } from './paced_recording.ts';
import { type BenchBrowser, startBrowser } from './page_browser.ts';
import { type PageDaemon, startPageDaemon } from './page_daemon.ts';
import { measureBox, measureSlider, measureStep } from './page_inputs.ts';
import { measurePlayback } from './page_playback.ts';
import { writeOneTransaction, writeTransactions } from './page_recordings.ts';
import { measureDense, measureLanes, measureOpening, measureSpeedscope } from './page_views.ts';
import { serveSpeedscope, writeProfile } from './speedscope_peer.ts';
import { type Answers, type PageResults, tableOf, targetsOf, valuesOf } from './web_page_report.ts';

export const summary = 'the web page in Chromium: pictures, answers, memory, smoothness, replay';
export const unit = 'ms to draw a million events, 95th percentile';

const EVENTS = 1_000_000;
const ROUNDS = 5;
const EVENTS_OF_EACH = 10;
const BIG = 'big';
const PACED = { transactionId: 'paced', eventsPerSecond: 1000, seconds: 5 };
/** Milliseconds that a slow transaction or event exceeds. */
const SLOW_MS = 30;
const PAGE_FOLDER = join(import.meta.dirname, '../../build/page');

export async function run(context: BenchContext): Promise<BenchResult> {
  const { folder, progress, sizes } = context;
  const events = sizes.events ?? EVENTS;
  const transactions = Math.ceil(events / EVENTS_OF_EACH);
  const paths = Object.fromEntries(
    ['one', 'some', 'many', 'paced'].map((name) => [name, join(folder, `${name}.kreplay`)]),
  ) as Record<'one' | 'some' | 'many' | 'paced', string>;
  progress('writing the recordings');
  writeOneTransaction(paths.one, BIG, events);
  writeTransactions(paths.some, transactions, EVENTS_OF_EACH);
  writeTransactions(paths.many, events, 1);
  const { transactionId, eventsPerSecond, seconds } = PACED;
  writePaced(paths.paced, [{ transactionId, events: eventsPerSecond * seconds + 1, periodNs: 1e9 / eventsPerSecond }]);
  await writeProfile(folder, events);

  const browser = await startBrowser(folder, allCpus(context));
  try {
    const results: PageResults = {
      ...(await measuredLanes(browser, context, paths.one)),
      ...(await measuredAnswers(browser, context, paths.some)),
      heatmap: await withDaemon(context, paths.many, ({ answerMs }) => answersOf(answerMs, '/api/heatmap')),
      ...(await measuredReplay(browser, context, paths.paced)),
      gzipBytes: gzipBytes(),
    };
    const { value, anchors } = valuesOf(results);
    return {
      ...{ value, anchors, targets: targetsOf(results), table: tableOf(results, events) },
      details: { events, transactions, ...results },
    };
  } finally {
    await browser.close();
  }
}

const allCpus = ({ loadCpu }: BenchContext) => [...allowedCpus(), loadCpu];

async function withDaemon<Measured>(
  context: BenchContext,
  path: string,
  measure: (daemon: PageDaemon) => Promise<Measured>,
): Promise<Measured> {
  const daemon = await startPageDaemon(path, allCpus(context), context.signal);
  try {
    return await measure(daemon);
  } finally {
    await daemon.stop();
  }
}

async function rounds<Measured>(
  { progress, signal }: BenchContext,
  text: string,
  measure: () => Promise<Measured>,
): Promise<Measured[]> {
  const measured: Measured[] = [];
  for (let round = 1; round <= ROUNDS; round++) {
    progress(`round ${round} of ${ROUNDS}: ${text}`);
    signal.throwIfAborted();
    measured.push(await measure());
  }
  return measured;
}

async function measuredLanes(browser: BenchBrowser, context: BenchContext, path: string) {
  const served = await serveSpeedscope(context.folder);
  try {
    return await withDaemon(context, path, async ({ url }) => ({
      opening: await rounds(context, 'a page that opens', () => measureOpening(browser, url)),
      lanes: await rounds(context, 'a transaction', () => measureLanes(browser, url, BIG)),
      dense: await rounds(context, 'a transaction on a dense screen', () => measureDense(browser, lanesUrl(url, BIG))),
      speedscope: await rounds(context, 'speedscope', () => measureSpeedscope(browser, served.url)),
    }));
  } finally {
    served.close();
  }
}

const lanesUrl = (url: string, transactionId: string) => `${url}/#v=1&view=lanes&transaction=${transactionId}`;

function measuredAnswers(browser: BenchBrowser, context: BenchContext, path: string) {
  return withDaemon(context, path, async ({ url, answerMs }) => ({
    overview: await rounds(context, 'the first sentence', () => measureOpening(browser, url)),
    box: await rounds(context, 'a box in the map', () => measureBox(browser, url)),
    sliders: await rounds(context, 'the sliders', async () => [
      await measureSlider(browser, lanesUrl(url, 'order-0'), 'Extra latency'),
      await measureSlider(browser, lanesUrl(url, 'order-0'), 'Deadline'),
    ]),
    differences: await answersOf(answerMs, `/api/differences?min_duration_ms=${SLOW_MS}`),
    eventDifferences: await answersOf(answerMs, `/api/differences?of=events&min_duration_ms=${SLOW_MS}`),
  }));
}

async function answersOf(answerMs: PageDaemon['answerMs'], path: string): Promise<Answers> {
  const statsMs = await answerMs('/api/stats?group_by=service', ROUNDS);
  return { tookMs: await answerMs(path, ROUNDS), statsMs };
}

function measuredReplay(browser: BenchBrowser, context: BenchContext, path: string) {
  const { transactionId } = PACED;
  return withDaemon(context, path, async (daemon) => ({
    playback: await rounds(context, 'a replay', () => measurePlayback(browser, daemon, transactionId, context.signal)),
    step: await rounds(context, 'steps', () => measureStep(browser, lanesUrl(daemon.url, transactionId))),
  }));
}

function gzipBytes(): number {
  const files = readdirSync(PAGE_FOLDER).filter((file) => file.endsWith('.gz'));
  return files.reduce((sum, file) => sum + statSync(join(PAGE_FOLDER, file)).size, 0);
}
