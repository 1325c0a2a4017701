/** Starts the real helper with a plan, and inspects its output and what it leaves behind. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Duplex, Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { readRecord } from '../../../daemon/run/format/layout.ts';
import { reportCall, reportHeader } from '../../../daemon/run/format/report_file.ts';
import { compiled, sourcesIn } from '../compiled.ts';

const ROOT = resolve(import.meta.dirname, '../../..');
export const RUNNER = join(ROOT, 'build/kreplay-runner');
const MARK = 'KREPLAY_RUNNER_TEST';
const POLL_MS = 20;
const GONE_WITHIN_MS = 15_000;

/** Compiles a C program. */
export function compileC(
  name: string,
  sources: readonly string[] = [],
  flags: readonly string[] = ['-static'],
): string {
  const runner = join(ROOT, 'native/runner');
  const files = [join(import.meta.dirname, `${name}.c`), ...sources.map((file) => join(runner, file))];
  const options = ['-std=c17', '-D_GNU_SOURCE', '-O2', '-Wall', '-Wextra', '-Wno-unused-result', '-pthread'];
  // Some include sources of the runner.
  const depends = [files[0]!, ...sourcesIn(runner)];
  return compiled(name, 'gcc', [...options, ...flags, '-I', runner, ...files, '-lm'], depends);
}

export interface Line {
  kind: string;
  [name: string]: unknown;
}

export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
  lines: Line[];
  line(kind: string): Line | undefined;
}

export interface Run {
  child: ChildProcess;
  control: Duplex;
  /** Value of an environment variable of every process that it starts. */
  mark: string;
  hears(word: string): Promise<void>;
  ended: Promise<Ended>;
}

export interface RunOptions {
  plan: Buffer | string;
  command: readonly string[];
  options?: readonly string[];
  before?: readonly string[];
  report?: string;
}

/** A folder that every user may write to. */
export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-runner-'));
  chmodSync(folder, 0o777);
  return folder;
}

export function removeFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}

export function startRun(folder: string, { plan, command, options = [], before = [], report }: RunOptions): Run {
  const planPath = typeof plan === 'string' ? plan : join(folder, `plan-${randomUUID()}`);
  if (typeof plan !== 'string') writeFileSync(planPath, plan);
  const reportPath = report ?? join(folder, 'report');
  const words = ['--plan', planPath, '--report', reportPath, '--control-fd', '3', ...options, '--', ...command];
  const [program, ...rest] = [...before, RUNNER, ...words];
  const mark = randomUUID();
  const child = spawn(program!, rest, {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    env: { ...process.env, [MARK]: mark },
  });
  const control = child.stdio[3] as Duplex;
  const [stdout, stderr, controlled] = [child.stdout!, child.stderr!, control].map(collect);
  control.on('error', () => {});
  const hears = async (word: string) => {
    while (!stdout!().includes(word)) await sleep(POLL_MS);
  };
  const ended = once(child, 'close').then(([code, signal]): Ended => {
    const lines = controlled!()
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line) as Line);
    return {
      code,
      signal,
      stdout: stdout!(),
      stderr: stderr!(),
      lines,
      line: (kind) => lines.find((line) => line.kind === kind),
    };
  });
  return { child, control, mark, hears, ended };
}

function collect(stream: Readable): () => string {
  const pieces: Buffer[] = [];
  stream.on('data', (piece: Buffer) => pieces.push(piece));
  return () => Buffer.concat(pieces).toString();
}

export async function run(folder: string, options: RunOptions): Promise<Ended> {
  const started = startRun(folder, options);
  const ended = await started.ended;
  expect(await leftOf(started.mark)).toEqual([]);
  return ended;
}

/** The numbers that a build printed. */
export function numbersIn(text: string): number[] {
  return text
    .split('\n')
    .filter((line) => /^\d+$/.test(line))
    .map(Number);
}

/** Command lines of a run's remaining processes; waits for those that are about to end. */
export async function leftOf(mark: string): Promise<string[]> {
  const until = performance.now() + GONE_WITHIN_MS;
  for (;;) {
    const left = marked(mark);
    if (left.length === 0 || performance.now() > until) return left;
    await sleep(POLL_MS);
  }
}

export function marked(mark: string): string[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    try {
      if (!readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`${MARK}=${mark}`)) return [];
      return [`${pid} ${readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')}`];
    } catch {
      return []; // The process ended in between.
    }
  });
}

export function readReport(path: string) {
  const bytes = readFileSync(path);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const header = readRecord(view, 0, reportHeader);
  const count = Math.floor((bytes.length - reportHeader.size) / reportCall.size);
  const calls = Array.from({ length: count }, (_, i) =>
    readRecord(view, reportHeader.size + i * reportCall.size, reportCall),
  );
  return { header, calls };
}
