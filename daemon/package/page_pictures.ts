/** Records an incident, opens it in the web page as a user would, and takes screenshots in Chromium. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { PROJECT } from './program.ts';

const KREPLAY = join(PROJECT, 'build/kreplay');
const INCIDENT = join(import.meta.dirname, 'incident.sh');
/** Time to wait until the agent has sealed the newest events, which it does after five seconds. */
const SEALED_MS = 6000;
const DRAWN_MS = 500;
const DESKTOP = { width: 1280, height: 880 };
const PHONE = { width: 390, height: 844 };
/** A4 at 96 dots per inch. */
const PAPER = { width: 794, height: 1123 };

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  return port;
}

/** Records the incident, and runs `work` while the agent and the daemon that recorded it are still running. */
async function runWithIncident(work: (url: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync('/var/tmp/shop-');
  const url = `http://127.0.0.1:${await findFreePort()}`;
  const args = ['up', '--data', join(folder, 'data'), '--listen', url.slice('http://'.length)];
  const kreplay: ChildProcess = spawn(KREPLAY, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  try {
    while (
      !(await fetch(`${url}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      ))
    )
      await sleep(200);
    execFileSync('bash', [INCIDENT, folder], { stdio: 'inherit' });
    await sleep(SEALED_MS);
    await work(url);
  } finally {
    kreplay.kill('SIGINT');
    if (kreplay.exitCode === null) await once(kreplay, 'exit');
    rmSync(folder, { recursive: true });
  }
}

/** Selector of the link that opens the slowest transaction. */
const OPEN = '.overview a.primary:has-text("Open")';
/** Selector of the picture with the transaction's lanes. */
const PICTURE = '.moving';
const WHAT_IF = 'latency=20000000&timeout=200000000&only_event_type=sys_sync';
const STEPS = 6;

async function openPage(browser: Browser, url: string, options: BrowserContextOptions): Promise<Page> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  await page.goto(url);
  return page;
}

/**
 * Waits until the page has read and drawn everything. The additional delay lets pictures adapt to the size of their
 * frame.
 */
async function waitUntilDrawn(page: Page): Promise<void> {
  await page.waitForSelector('main[aria-busy=false]');
  await sleep(DRAWN_MS);
}

/** Writes `overview.png`, `transaction.png`, `phone.png` and `paper.png` into the folder. */
export async function takePagePictures(folder: string): Promise<void> {
  const save = (page: Page, name: string) => page.screenshot({ path: join(folder, `${name}.png`) });
  await runWithIncident(async (url) => {
    const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
    try {
      const overview = await openPage(browser, url, { viewport: DESKTOP });
      await overview.waitForSelector(OPEN);
      await waitUntilDrawn(overview);
      await save(overview, 'overview');
      const paper = await openPage(browser, url, { viewport: PAPER });
      await paper.waitForSelector(OPEN);
      await waitUntilDrawn(paper);
      await paper.emulateMedia({ media: 'print' });
      await save(paper, 'paper');

      await overview.click(OPEN);
      await overview.waitForSelector(PICTURE);
      const address = `${overview.url()}&${WHAT_IF}`;
      const dark = await openPage(browser, address, { viewport: DESKTOP, colorScheme: 'dark' });
      await dark.waitForSelector(PICTURE);
      for (let step = 0; step < STEPS; step++) await dark.keyboard.press('Period');
      await dark.waitForSelector(`text=event ${STEPS} of`);
      await waitUntilDrawn(dark);
      await save(dark, 'transaction');
      const phone = await openPage(browser, address, { viewport: PHONE });
      await phone.waitForSelector(PICTURE);
      await waitUntilDrawn(phone);
      await save(phone, 'phone');
    } finally {
      await browser.close();
    }
  });
}
