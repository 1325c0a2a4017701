/** Runs the helper, `build/kreplay-runner`, which starts the command and delays its calls. */
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
  /**
   * Path of the file in which the helper keeps the last bytes of outputs that are pipes or sockets; undefined if
   * nothing needs these bytes.
   */
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
  /** Exit code in the form that a shell reports: 128 plus the signal's number if a signal ended the command. */
  code: number;
  /** The signal that ended the helper itself, if any. */
  signal: NodeJS.Signals | null;
  /** Whether a signal such as SIGINT or SIGTERM was forwarded to the command. */
  wasSignalled: boolean;
  said: RunnerStatus;
}

const CONTROL_FD = 3;
const PROBE_TIMEOUT_MS = 10_000;

/** Signals that are forwarded to the command. */
const PASSED_ON = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;

function findRunnerPath(): string {
  const path = createRequire(import.meta.url).resolve('#runner');
  if (!existsSync(path)) throw new RunError(`there is no ${path}: run make build`);
  return path;
}

/** Returns the reason why this machine cannot replay as requested; undefined if it can. */
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
 * Returns the reason why the helper cannot make short writes; undefined if it can. The helper makes a short write
 * itself, so it needs a copy of the command's file descriptor (pidfd_getfd). The kernel must also not restart the call
 * (wait_killable).
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
 * `tailsPath`, the helper replaces each output that is a pipe or a socket by a pipe of its own, and relays the data.
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
  // If the helper is killed, the stream may emit an error. It is ignored, and the messages before it are kept.
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
