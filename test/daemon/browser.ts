/** Loads a page in Debian's headless Chromium and reports its final document, its requests and what was refused. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { newFolder } from './recorded.ts';

const run = promisify(execFile);

/** No host but this machine resolves: the browser's own background requests would only cost time. */
const OFFLINE = ['--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1', '--disable-background-networking'];
/** Virtual time budget; virtual time stands still while the page waits for an answer. */
const VIRTUAL_TIME_MS = 20_000;

export interface Shown {
  /** The document as the page's scripts have left it. */
  dom: string;
  /** Addresses that the page requested, reachable or not. */
  requested: string[];
  /** Lines of its console; a violation of the content security policy is an error there. */
  console: string[];
}

interface NetLog {
  constants: { logEventTypes: Record<string, number> };
  events: { type: number; params?: { url?: string; initiator?: string } }[];
}

export async function shown(url: string): Promise<Shown> {
  const folder = newFolder();
  const log = join(folder, 'net.json');
  const { stdout, stderr } = await run(
    '/usr/bin/chromium',
    [
      // Chromium's sandbox does not work as root.
      ...['--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run', ...OFFLINE],
      ...[`--user-data-dir=${join(folder, 'profile')}`, `--log-net-log=${log}`, '--enable-logging=stderr'],
      ...[`--virtual-time-budget=${VIRTUAL_TIME_MS}`, '--dump-dom', url],
    ],
    { maxBuffer: 1 << 26 },
  );
  const { constants, events }: NetLog = JSON.parse(readFileSync(log, 'utf8'));
  return {
    dom: stdout,
    requested: events.flatMap(({ type, params: { url: asked, initiator } = {} }) =>
      type === constants.logEventTypes.URL_REQUEST_START_JOB && initiator === new URL(url).origin ? asked! : [],
    ),
    console: stderr.split('\n').filter((line) => line.includes(':CONSOLE')),
  };
}
