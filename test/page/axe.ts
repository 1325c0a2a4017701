/** What axe finds wrong with a page, and whether it can be read in both themes, with forced colours, and when narrow. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Violation {
  id: string;
  nodes: { html: string }[];
}

const ALL = '';
/** The rules that axe has switched on and that depend on colours. */
const COLOURS = "runOnly: ['color-contrast', 'link-in-text-block']";

export async function violations(page: Page, only = ALL): Promise<string[]> {
  // The policy of the page allows no text as a script, except to a debugger.
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(AXE);
  // Nodes without a violation are checked as well, and not described.
  const run = `axe.run({ resultTypes: ['violations'], ${only} }).then(({ violations }) => violations)`;
  const found = (await page.evaluate(run)) as Violation[];
  return found.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`));
}

const PHONE = { width: 320, height: 640 };
/** What a window of 1280 x 800 has at 200 %. */
const ZOOMED = { width: 640, height: 400 };

/** How much wider the page is than the screen, after the frame in which it is drawn with a new width. */
const CUT_OFF_PX = `new Promise((resolve) => {
  const read = () => resolve(document.documentElement.scrollWidth - innerWidth);
  requestAnimationFrame(() => requestAnimationFrame(read));
})`;

interface Look {
  name: string;
  begin?(page: Page): Promise<unknown>;
  /** What axe looks for: no rule but those of colours depends on them, and none on a width that is not the least. */
  rules?: string;
  end?(page: Page): Promise<unknown>;
}

const LOOKS: Look[] = [
  { name: 'as it is', rules: ALL },
  { name: 'dark', begin: (page) => setTheme(page, 'dark'), rules: COLOURS, end: (page) => setTheme(page, 'light') },
  {
    ...{ name: 'forced colours', rules: COLOURS },
    begin: (page) => page.emulateMedia({ forcedColors: 'active' }),
    end: (page) => page.emulateMedia({ forcedColors: 'none' }),
  },
  { name: '200 % zoom', begin: (page) => page.setViewportSize(ZOOMED) },
  { name: 'a phone', begin: (page) => page.setViewportSize(PHONE), rules: ALL },
];

/** As the page does when its user chooses one, which a dialog would keep from it. */
const setTheme = (page: Page, theme: 'light' | 'dark') =>
  page.evaluate(`document.documentElement.dataset.theme = '${theme}'; dispatchEvent(new Event('themechange'));`);

/** Expects that axe finds nothing and that nothing is cut off at the side, however a light page is looked at. */
export async function expectReadable(page: Page): Promise<void> {
  const size = page.viewportSize()!;
  const found: string[] = [];
  for (const { name, begin, rules, end } of LOOKS) {
    await begin?.(page);
    const cutOffPx = Number(await page.evaluate(CUT_OFF_PX));
    if (cutOffPx > 0) found.push(`${name}: ${cutOffPx} pixels are cut off`);
    if (rules !== undefined) found.push(...(await violations(page, rules)).map((violation) => `${name}: ${violation}`));
    await end?.(page);
  }
  await page.setViewportSize(size);
  expect(found).toEqual([]);
}
