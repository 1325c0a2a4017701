/** Debian's Chromium, which a test drives as a user would. */
import { mkdirSync, writeFileSync } from 'node:fs';
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  errors,
  type Page,
} from 'playwright-core';
import { CHROMIUM, programWithoutWindows } from './chromium.ts';

// Playwright takes a trace of each call, of up to the hundred frames that jest asks for.
Error.stackTraceLimit = 10;

/** Opened once for a suite: it takes a second. */
let browser: Promise<Browser> | undefined;
const closers: (() => Promise<void>)[] = [];

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

afterAll(async () => {
  await (await browser)?.close();
  browser = undefined;
});

export interface WatchedPage {
  page: Page;
  /** Errors of the console and of scripts: a violation of the content security policy is one. */
  errors: string[];
  /** Addresses that were requested. */
  requested: string[];
}

/** A page of a browser profile of its own, closed when the test ends. */
export async function newPage(options: BrowserContextOptions = {}): Promise<WatchedPage> {
  browser ??= chromium.launch({ ...LAUNCH, executablePath: programWithoutWindows() });
  return firstPage(await (await browser).newContext(options));
}

async function firstPage(context: BrowserContext): Promise<WatchedPage> {
  closers.push(() => context.close());
  context.on('page', (page) => {
    lookOften(page);
    readPlainly(page);
    showAtTimeout(page);
  });
  return watch(await context.newPage());
}

const WAIT_MS_MAX = 30_000;
/** Playwright looks at least five times within the time that it may wait. */
const LOOK_MS_MAX = 490;

/** Looks for what is waited for each 50 ms: playwright looks each 500 ms after the first ones, and tests wait often. */
function lookOften(page: Page): void {
  const wait = page.waitForSelector.bind(page);
  const waitOften = async (given: string, options: Parameters<typeof wait>[1] = {}) => {
    const selector = withAnySpaces(given);
    const { timeout: waitMs = WAIT_MS_MAX } = options;
    const endMs = performance.now() + waitMs;
    for (;;) {
      const leftMs = Math.max(endMs - performance.now(), 1);
      try {
        return await wait(selector, { ...options, timeout: Math.min(leftMs, LOOK_MS_MAX) });
      } catch (error) {
        if (!(error instanceof errors.TimeoutError)) throw error;
        if (performance.now() < endMs) continue;
        error.message = error.message.replace(/Timeout [\d.]+ms/, `Timeout ${waitMs}ms`);
        throw error;
      }
    }
  };
  page.waitForSelector = waitOften as typeof page.waitForSelector;
}

/** Reads no-break spaces as spaces: what a page says does not depend on where its lines may break. */
function readPlainly(page: Page): void {
  for (const name of ['textContent', 'innerText', '$eval', '$$eval'] as const) {
    const read = page[name].bind(page) as (...options: unknown[]) => Promise<unknown>;
    Object.assign(page, { [name]: async (...options: unknown[]) => withPlainSpaces(await read(...options)) });
  }
}

/** The same texts, lists and objects, with a space in place of each no-break space. */
export function withPlainSpaces<Value>(value: Value): Value;
export function withPlainSpaces(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('\u00a0', ' ');
  if (Array.isArray(value)) return value.map((item) => withPlainSpaces(item));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withPlainSpaces(item)]));
}

/** The selector with expressions that take a no-break space for a space, as playwright does for a text. */
function withAnySpaces(selector: string): string {
  return selector.replace(/text=\/.*\/|text-matches\("[^"]*"/g, (expression) =>
    expression.replaceAll(' ', '[ \u00a0]'),
  );
}

const SHOWN_MAX = 3000;

/** Adds what the page shows, and where it is, to the message of a wait that took too long: nobody sees it later. */
function showAtTimeout(page: Page): void {
  for (const name of ['waitForSelector', 'waitForURL', 'waitForRequest', 'waitForResponse'] as const) {
    const wait = page[name].bind(page) as (...options: unknown[]) => Promise<unknown>;
    const waitAndShow = async (...options: unknown[]) => {
      try {
        return await wait(...options);
      } catch (error) {
        if (error instanceof errors.TimeoutError) {
          const shown = await page.evaluate(() => `${location.href}\n${document.body.innerText}`).catch(String);
          error.message += `\nThe page at that time: ${shown.slice(0, SHOWN_MAX)}`;
        }
        throw error;
      }
    };
    Object.assign(page, { [name]: waitAndShow });
  }
}

/**
 * The pages of the address bar, of which each new window loads two: they take as much of a processor as the page that
 * is tested. Chromium heeds the last list only, so what playwright has switched off that matters here is in it as well.
 */
const FEATURES_OFF = [
  ...['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'WebUIOmniboxFullPopup'],
  ...['DestroyProfileOnBrowserClose', 'HttpsUpgrades', 'MediaRouter', 'NetworkTimeServiceQuerying'],
  ...['OptimizationHints', 'PaintHolding'],
];

/** No host but this machine resolves, which has a name too: what a page or the browser asks of others fails at once. */
const OFFLINE =
  '--host-resolver-rules=MAP kreplay.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost';

const LAUNCH = {
  // Chromium's sandbox does not work as root.
  args: ['--no-sandbox', '--disable-gpu', OFFLINE, `--disable-features=${FEATURES_OFF}`],
  // Without a locale Chromium reads no file whose name has other characters than ASCII.
  env: { ...process.env, LANG: 'C.UTF-8' },
};

/** A page in a window of a browser whose user lets no site keep anything, by the setting that blocks all cookies. */
export async function newPageThatKeepsNothing(folder: string): Promise<WatchedPage> {
  const preferences = { profile: { default_content_setting_values: { cookies: 2 } } };
  mkdirSync(`${folder}/Default`, { recursive: true });
  writeFileSync(`${folder}/Default/Preferences`, JSON.stringify(preferences));
  return firstPage(await chromium.launchPersistentContext(folder, { ...LAUNCH, executablePath: CHROMIUM }));
}

export function watch(page: Page): WatchedPage {
  const [errors, requested]: [string[], string[]] = [[], []];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') errors.push(message.text());
  });
  page.on('pageerror', (error) => void errors.push(String(error)));
  page.on('request', (request) => void requested.push(request.url()));
  return { page, errors, requested };
}
