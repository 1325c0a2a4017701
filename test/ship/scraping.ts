/** A daemon of a test, and what it says to Prometheus and to a supervisor. */
import { setTimeout as sleep } from 'node:timers/promises';
import { endWithServers } from '../clickhouse/server.ts';
import { type Running, start } from '../daemon/command_line.ts';
import { type Sample, samplesOf } from '../daemon/metrics/scraped.ts';

export interface Scraped {
  url: string;
  samples(): Promise<Sample[]>;
  get(path: string): Promise<{ status: number; text: string }>;
}

const running = new Set<Running>();

/** Suites call it in afterAll(), before those that end servers. */
export async function endDaemons(): Promise<void> {
  for (const one of running) one.child.kill('SIGTERM');
  await Promise.all([...running].map(({ ended }) => ended));
}
endWithServers(endDaemons);

export async function startDaemon(...args: string[]): Promise<Scraped> {
  const one = start('daemon', '--listen', '127.0.0.1:0', '--no-state', ...args);
  running.add(one);
  void one.ended.finally(() => running.delete(one));
  const [, url] = /.* at (http:\S+)/.exec(await one.printed(/ at http:\S+\n/))!;
  async function get(path: string) {
    const response = await fetch(`${url}${path}`);
    return { status: response.status, text: await response.text() };
  }
  return { url: url!, get, samples: async () => samplesOf((await get('/metrics')).text) };
}

const PATIENCE_MS = 20_000;

/** Scrapes until the samples are as they should be; returns the last ones in any case, so that a test shows them. */
export async function samplesWhen(
  { samples }: Pick<Scraped, 'samples'>,
  isAsExpected: (samples: readonly Sample[]) => boolean,
): Promise<Sample[]> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await samples();
    if (isAsExpected(found) || performance.now() > deadline) return found;
    await sleep(100);
  }
}
