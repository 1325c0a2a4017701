/** Chromium as a bench drives it: on all CPUs, as on a user's machine, and with a probe in each page. */
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium, type Page } from 'playwright-core';
import { percentile } from './statistics.ts';

const CHROMIUM = '/usr/bin/chromium';
const PROBE = join(import.meta.dirname, 'page_probe.js');

export interface Screen {
  /** CSS pixels. */
  width: number;
  height: number;
  /** Device pixels per CSS pixel. */
  dpr: number;
}

export interface BenchPage {
  page: Page;
  /** Origins other than that of the page to which it sent a request. */
  foreign: Set<string>;
  /** Calls a function of the probe. */
  probe<Answer>(name: string, ...args: (string | number)[]): Promise<Answer>;
  /** Memory of scripts after a collection: objects, typed arrays, and what the document holds. */
  heapBytes(): Promise<number>;
  /** Closes the page and its profile. */
  close(): Promise<void>;
}

export interface BenchBrowser {
  /** Opens an address in a profile of its own, so that nothing of it is cached. */
  open(url: string, screen: Screen): Promise<BenchPage>;
  close(): Promise<void>;
}

export async function startBrowser(
  folder: string,
  cpus: readonly number[],
  more: readonly string[] = [],
): Promise<BenchBrowser> {
  const program = join(folder, 'chromium');
  writeFileSync(program, `#!/bin/sh\nexec taskset --cpu-list ${cpus.join(',')} ${CHROMIUM} "$@"\n`);
  chmodSync(program, 0o755);
  // Chromium's sandbox does not work as root.
  const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox', ...more] });
  return {
    async open(url, { width, height, dpr }) {
      const context = await browser.newContext({ viewport: { width, height }, deviceScaleFactor: dpr });
      await context.addInitScript({ path: PROBE });
      const page = await context.newPage();
      const foreign = new Set<string>();
      page.on('request', (request) => {
        const { origin, protocol } = new URL(request.url());
        if (protocol.startsWith('http') && origin !== new URL(url).origin) foreign.add(origin);
      });
      await page.goto(url);
      return {
        page,
        foreign,
        probe: (name, ...args) =>
          page.evaluate(`kreplayBench.${name}(${args.map((arg) => JSON.stringify(arg)).join()})`),
        async heapBytes() {
          const session = await context.newCDPSession(page);
          await session.send('HeapProfiler.collectGarbage');
          const used = await session.send('Runtime.getHeapUsage');
          return used.usedSize + used.embedderHeapUsedSize + used.backingStorageSize;
        },
        close: () => context.close(),
      };
    },
    close: () => browser.close(),
  };
}

export interface Frames {
  p95: number;
  max: number;
}

export function framesOf(ms: readonly number[]): Frames {
  return { p95: percentile(ms, 0.95), max: Math.max(...ms) };
}
