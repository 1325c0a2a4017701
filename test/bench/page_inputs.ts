/** Measures how soon the page shows what the user did: a step of a replay, a box in the map, sliders that are moved. */
import type { Locator } from 'playwright-core';
import type { BenchBrowser, BenchPage } from './page_browser.ts';
import { p95, USUAL } from './page_views.ts';

const STEPS = 60;
const MOVES = 120;
/** The page draws 60 frames a second, so that each move is of a frame of its own. */
const MOVE_EVERY_MS = 20;
const STEP_EVERY_MS = 100;
/** How long a view that a build of the page may not have is waited for. */
const ABSENT_AFTER_MS = 10_000;

/** 95th percentile, milliseconds; null if the page has nothing of the kind. */
export type InputTime = number | null;

export async function measureStep(browser: BenchBrowser, lanesUrl: string): Promise<number> {
  const opened = await browser.open(lanesUrl, USUAL);
  const { page, probe } = opened;
  try {
    await page.waitForSelector('main[aria-busy=false] canvas.moving');
    // The first step makes the session.
    await page.keyboard.press('Period');
    await page.waitForSelector('.replay .figures');
    await probe('watchInputs', 'keydown', '.replay .figures');
    for (let step = 0; step < STEPS; step++) {
      await page.keyboard.press('Period');
      await page.waitForTimeout(STEP_EVERY_MS);
    }
    return p95(await probe<number[]>('inputTimes'));
  } finally {
    await opened.close();
  }
}

/** Draws a box in the map of the first view. */
export async function measureBox(browser: BenchBrowser, url: string): Promise<InputTime> {
  const opened = await browser.open(url, USUAL);
  try {
    const map = opened.page.locator('canvas[aria-label^="Map"]').first();
    return await dragged(opened, map, 'pointermove', 'canvas');
  } finally {
    await opened.close();
  }
}

/** Moves a slider of the what-if, which answers for all transactions of a service, too. */
export async function measureSlider(browser: BenchBrowser, lanesUrl: string, label: string): Promise<InputTime> {
  const opened = await browser.open(lanesUrl, USUAL);
  try {
    const slider = opened.page.getByLabel(label).and(opened.page.locator('input[type=range]')).first();
    return await dragged(opened, slider, 'input', 'main, main canvas');
  } finally {
    await opened.close();
  }
}

async function dragged(
  { page, probe }: BenchPage,
  element: Locator,
  type: string,
  pictures: string,
): Promise<InputTime> {
  const isThere = await element.waitFor({ timeout: ABSENT_AFTER_MS }).then(
    () => true,
    () => false,
  );
  if (!isThere) return null;
  await page.waitForLoadState('networkidle');
  await element.scrollIntoViewIfNeeded();
  const { x, y, width, height } = (await element.boundingBox())!;
  const at = (share: number) => [x + width * share, y + height * (0.3 + 0.4 * share)] as const;
  await page.mouse.move(...at(0.2));
  await page.mouse.down();
  await probe('watchInputs', type, pictures);
  for (let move = 1; move <= MOVES; move++) {
    await page.mouse.move(...at(0.2 + (0.6 * move) / MOVES));
    await page.waitForTimeout(MOVE_EVERY_MS);
  }
  await page.mouse.up();
  const times = await probe<number[]>('inputTimes');
  return times.length > 0 ? p95(times) : null;
}
