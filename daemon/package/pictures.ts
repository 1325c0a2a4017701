/**
 * `make docs`: renews the pictures of the documentation pages; must run as root. First, it records a demo and draws the
 * player's terminal, paused after the slowest call. Then it records an incident and takes screenshots of the web page.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { takePagePictures } from './page_pictures.ts';
import { PROJECT } from './program.ts';
import { drawScreen } from './screen_svg.ts';

const KREPLAY = join(PROJECT, 'build/kreplay');
const PICTURE = join(PROJECT, 'daemon/docs/pictures/player.svg');
const COLUMNS = 112;
const ROWS = 22;
const TITLE = 'the player, paused after the slow fsync of a transaction';
const POLL_MS = 100;
const POLLS_MAX = 300;

/** Runs `work` with the output of the demo, while the demo serves its recording. */
async function runWithDemo(work: (report: string) => Promise<void>): Promise<void> {
  // The path is short, so that it fits into a line of the player.
  const folder = mkdtempSync('/var/tmp/demo-');
  const demo: ChildProcess = spawn(KREPLAY, ['demo', '--data', folder], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    let report = '';
    for await (const text of demo.stdout!.setEncoding('utf8')) {
      report += text;
      if (report.includes('Ctrl-C ends it')) break;
    }
    await work(report);
  } finally {
    demo.kill('SIGINT');
    if (demo.exitCode === null) await once(demo, 'exit');
    rmSync(folder, { recursive: true });
  }
}

/** Runs a command in a terminal. Returns the screen with its style codes as soon as `isShown` accepts the screen. */
async function captureScreen(command: readonly string[], isShown: (screen: string) => boolean): Promise<string> {
  const runTmux = (...args: string[]) =>
    execFileSync('tmux', ['-u', '-f', '/dev/null', '-L', `kreplay-${process.pid}`, ...args], { encoding: 'utf8' });
  runTmux('new-session', '-d', '-x', String(COLUMNS), '-y', String(ROWS), ...command);
  try {
    for (let polls = 0; polls < POLLS_MAX; polls++) {
      await sleep(POLL_MS);
      const screen = runTmux('capture-pane', '-p', '-e');
      if (isShown(screen)) return screen;
    }
    throw new Error(`the player does not pause: ${runTmux('capture-pane', '-p')}`);
  } finally {
    runTmux('kill-server');
  }
}

await runWithDemo(async (report) => {
  const url = /^Or open (\S+)\/#\S+$/m.exec(report)![1]!;
  const took_ms = /^ *\+\S+ +([\d.]+)ms .* fsync \S+backup\.tar$/m.exec(report)![1]!;
  const slowest = `syscall=fsync && duration_ms>${Math.floor(Number(took_ms))}`;
  const command = [KREPLAY, 'replay', 'order-1', '--url', url, '--speed', '0.2', '--break', slowest];
  const screen = await captureScreen(command, (text) => text.includes('paused after event'));
  mkdirSync(join(PICTURE, '..'), { recursive: true });
  writeFileSync(PICTURE, drawScreen(screen, COLUMNS, TITLE));
});
await takePagePictures(join(PICTURE, '..'));
