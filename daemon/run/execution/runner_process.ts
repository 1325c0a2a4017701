/** Runs the helper, `build/kreplay-runner`, which starts the command and makes its calls wait. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import type { Duplex } from 'node:stream';
import { applyLine, createRunnerStatus, type RunnerStatus } from '../control_lines.ts';
import { EXIT, RunError } from '../errors.ts';

export interface RunnerRequest {
  planPath: string;
  reportPath: string;
  /** File for the last bytes of outputs that are pipes or sockets, if they are wanted. */
  tailsPath: string | undefined;
  mode: string;
  seed: bigint;
  unknown: string;
  thresholdNs: number;
  ioUring: string;
  maps: readonly string[];
  /** Path patterns of the rules, for fnmatch(3). */
  rulePaths: readonly string[];
  command: readonly string[];
}

export interface RunnerEnd {
  /** Exit code as a shell reports it: 128 and more for a signal. */
  code: number;
  /** The signal that ended the helper itself, if any. */
  signal: NodeJS.Signals | null;
  /** Whether a signal to end was passed on to the command. */
  wasSignalled: boolean;
  said: RunnerStatus;
}

const CONTROL_FD = 3;
const PROBE_TIMEOUT_MS = 10_000;

/** Signals that are passed on, because they are meant for the command. */
const PASSED_ON = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;

function findRunnerPath(): string {
  const path = createRequire(import.meta.url).resolve('#runner');
  if (!existsSync(path)) throw new RunError(`there is no ${path}: run make build`);
  return path;
}

/** Returns what keeps this machine from replaying as requested; undefined if nothing does. */
export function findObstacle({ makesShort }: { makesShort: boolean }): string | undefined {
  const { status, error, stdout, stderr, signal } = spawnSync(findRunnerPath(), ['--probe'], {
    encoding: 'utf8',
    timeout: PROBE_TIMEOUT_MS,
  });
  if (status === 0) return makesShort ? findShortObstacle(stdout) : undefined;
  if (status !== EXIT.notReplayable)
    throw new RunError(`the runner could not check this machine: ${error?.message ?? (stderr.trim() || signal)}`);
  return parseProbe(stdout).reason ?? (stderr.trim() || 'no seccomp listener can be installed');
}

/**
 * Returns what keeps the helper from making short writes. The helper makes a short write in place of the command, so it
 * needs the command's open file, and the kernel must not make the write again.
 */
function findShortObstacle(text: string): string | undefined {
  const { pidfd_getfd, wait_killable } = parseProbe(text);
  if (pidfd_getfd === true && wait_killable === true) return undefined;
  const lacking = pidfd_getfd === true ? 'a kernel from 5.19 on' : 'pidfd_getfd(2), which is not permitted here';
  return `--short needs ${lacking}`;
}

interface Probed {
  reason?: string;
  pidfd_getfd?: boolean;
  wait_killable?: boolean;
}

function parseProbe(text: string): Probed {
  try {
    return JSON.parse(text) as Probed;
  } catch {
    return {};
  }
}

/**
 * Runs the command, which inherits the standard input, the outputs and the environment of this process. With a
 * `tailsPath`, an output that is a pipe or a socket is another pipe for it, from which the helper passes everything on.
 */
export async function runCommand(request: RunnerRequest): Promise<RunnerEnd> {
  const { planPath, reportPath, tailsPath, mode, seed, unknown, thresholdNs, ioUring, maps, rulePaths, command } =
    request;
  const options: [string, string][] = [
    ['--plan', planPath],
    ['--report', reportPath],
    ['--control-fd', `${CONTROL_FD}`],
    ['--mode', mode],
    ['--seed', `${seed}`],
    ['--unknown', unknown],
    ['--threshold-ns', `${thresholdNs}`],
    ['--io-uring', ioUring],
    ...(tailsPath === undefined ? [] : [['--tails', tailsPath] satisfies [string, string]]),
    ...maps.map((map): [string, string] => ['--map', map]),
    ...rulePaths.map((pattern): [string, string] => ['--rule-path', pattern]),
  ];
  const child = spawn(findRunnerPath(), [...options.flat(), '--', ...command], {
    stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
  });
  const said = createRunnerStatus();
  const passing = passSignals(child);
  try {
    const onLine = (line: string) => applyLine(said, line);
    const [end] = await Promise.all([waitForExit(child), listen(child.stdio[CONTROL_FD] as Duplex, onLine)]);
    return { ...end, wasSignalled: passing.wasSignalled(), said };
  } finally {
    passing.stop();
  }
}

async function waitForExit(child: ChildProcess) {
  type End = Pick<RunnerEnd, 'code' | 'signal'>;
  const { promise, resolve, reject } = Promise.withResolvers<End>();
  child.once('error', (error) => reject(new RunError(`the runner cannot be started: ${error.message}`)));
  child.once('exit', (code, signal) => resolve({ code: code ?? 128 + constants.signals[signal!], signal }));
  return promise;
}

async function listen(control: Duplex, onLine: (line: string) => void): Promise<void> {
  // A killed helper resets the stream; the messages that it sent before are kept.
  control.on('error', () => {});
  const { promise, resolve } = Promise.withResolvers<void>();
  createInterface({ input: control })
    .on('line', onLine)
    .on('error', () => {})
    .once('close', resolve);
  return promise;
}

function passSignals(child: ChildProcess) {
  let wasSignalled = false;
  const pass = (signal: NodeJS.Signals) => {
    wasSignalled = true;
    child.kill(signal);
  };
  for (const signal of PASSED_ON) process.on(signal, pass);
  return {
    wasSignalled: () => wasSignalled,
    stop() {
      for (const signal of PASSED_ON) process.off(signal, pass);
    },
  };
}
