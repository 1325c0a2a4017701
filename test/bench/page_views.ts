/** Measures the page's views: when they are there, how long their pictures take, and what they keep in memory. */
import { type BenchBrowser, type BenchPage, type Frames, framesOf, type Screen } from './page_browser.ts';
import { percentile } from './statistics.ts';

/** Parts of the events that are in view, beside how often `W` is pressed for it: each time 1.5 times less is in view. */
export const PARTS = { all: 0, tenth: 6, thousandth: 17 } as const;
export type Part = keyof typeof PARTS;
const PART_NAMES = Object.keys(PARTS) as Part[];
/** The share that is in view after so many times. */
const shareOf = (part: Part) => 1.5 ** -PARTS[part];

export const USUAL: Screen = { width: 1280, height: 800, dpr: 1 };
/** 2560x1600 device pixels. */
export const DENSE: Screen = { width: 1280, height: 800, dpr: 2 };
const DRAWS = 60;
const FRAMES_SECONDS = 2;

interface Times {
  sinceMs: number;
  shownMs: Partial<Record<'ready' | 'sentence' | 'picture' | 'all' | 'speedscope', number>>;
  longTasks: { startMs: number; ms: number }[];
}

/** 95th percentiles, milliseconds. */
export type Draws = Record<Part, number>;

export interface Opened {
  readyMs: number;
  sentenceMs: number;
  foreign: string[];
}

export interface LanesMeasured {
  /** From the click that opens the transaction. */
  pictureMs: number;
  allMs: number;
  /** 0 if no task took 50 ms. */
  longestTaskMs: number;
  heapBytes: number;
  draws: Draws;
  naive: Draws;
  emptyMs: number;
  frames: Frames;
  idle: Frames;
  foreign: string[];
}

/** Opens the page at its first view, in a profile without a cache. */
export async function measureOpening(browser: BenchBrowser, url: string): Promise<Opened> {
  const opened = await browser.open(url, USUAL);
  try {
    await opened.page.waitForSelector('h1');
    const { ready, sentence } = (await shownTimes(opened, 'sentence')).shownMs;
    return { readyMs: ready!, sentenceMs: sentence!, foreign: [...opened.foreign] };
  } finally {
    await opened.close();
  }
}

/** Opens the transaction from the first view by a click, and moves its picture. */
export async function measureLanes(browser: BenchBrowser, url: string, transactionId: string): Promise<LanesMeasured> {
  const opened = await browser.open(url, USUAL);
  const { page, probe } = opened;
  try {
    await page.click('h1 a');
    await page.waitForSelector('canvas.moving');
    await page.waitForSelector('main[aria-busy=false]');
    const { sinceMs, shownMs, longTasks } = await shownTimes(opened, 'all');
    const heapBytes = await opened.heapBytes();
    const draws = await drawsOf(opened);
    const frames = framesOf(await probe<number[]>('frames', FRAMES_SECONDS));
    const idle = framesOf(await probe<number[]>('idleFrames', FRAMES_SECONDS));
    const naive = {} as Draws;
    for (const part of PART_NAMES)
      naive[part] = p95(await probe<number[]>('naiveDraws', transactionId, shareOf(part), DRAWS / 2));
    // It clears the pictures, and so comes last.
    const emptyMs = p95(await probe<number[]>('emptyDraws', DRAWS));
    return {
      ...{ pictureMs: shownMs.picture! - sinceMs, allMs: shownMs.all! - sinceMs, heapBytes, draws, naive, emptyMs },
      ...{ longestTaskMs: Math.max(0, ...longTasks.map(({ ms }) => ms)), frames, idle, foreign: [...opened.foreign] },
    };
  } finally {
    await opened.close();
  }
}

export interface DenseMeasured {
  draws: Draws;
  emptyMs: number;
  frames: Frames;
}

export async function measureDense(browser: BenchBrowser, lanesUrl: string): Promise<DenseMeasured> {
  const opened = await browser.open(lanesUrl, DENSE);
  try {
    await opened.page.waitForSelector('canvas.moving');
    await opened.page.waitForSelector('main[aria-busy=false]');
    const draws = await drawsOf(opened);
    const frames = framesOf(await opened.probe<number[]>('frames', FRAMES_SECONDS));
    return { draws, frames, emptyMs: p95(await opened.probe<number[]>('emptyDraws', DRAWS)) };
  } finally {
    await opened.close();
  }
}

export interface PeerMeasured {
  loadMs: number;
  longestTaskMs: number;
  heapBytes: number;
  frames: Frames;
}

export async function measureSpeedscope(browser: BenchBrowser, url: string): Promise<PeerMeasured> {
  const opened = await browser.open(url, USUAL);
  try {
    const { shownMs, longTasks } = await shownTimes(opened, 'speedscope');
    const heapBytes = await opened.heapBytes();
    const frames = framesOf(await opened.probe<number[]>('wheelFrames', FRAMES_SECONDS));
    const longestTaskMs = Math.max(0, ...longTasks.map(({ ms }) => ms));
    return { loadMs: shownMs.speedscope!, longestTaskMs, heapBytes, frames };
  } finally {
    await opened.close();
  }
}

async function drawsOf({ probe }: BenchPage): Promise<Draws> {
  const draws = {} as Draws;
  for (const part of PART_NAMES) draws[part] = p95(await probe<number[]>('draws', PARTS[part], DRAWS));
  return draws;
}

async function shownTimes({ page, probe }: BenchPage, name: keyof Times['shownMs']): Promise<Times> {
  for (;;) {
    const times = await probe<Times>('times');
    if (times.shownMs[name] !== undefined) return times;
    await page.waitForTimeout(50);
  }
}

export function p95(values: readonly number[]): number {
  return percentile(values, 0.95);
}
