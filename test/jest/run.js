/**
 * Runs jest for `make check`, `make test`, `make test-long` and `make sanitized`. It says first what this machine cannot do, and leaves
 * nothing behind, however the run ends: temporary files lie in one folder, mounts in a mount namespace, and the
 * environment of each process that a suite starts names the run.
 */
import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';

const CONFIGS = {
  check: 'test/jest/check.config.js',
  test: 'jest.config.js',
  long: 'test/jest/long.config.js',
  sanitized: 'test/jest/sanitized.config.js',
};
const PREFIX = 'kreplay-tests-';
/** The variable in the environment of a run's processes that names the run. */
const MARK = 'KREPLAY_TEST_RUN';
const IS_ROOT = process.getuid() === 0;

const [mode, ...args] = process.argv.slice(2);
if (!(mode in CONFIGS)) {
  console.error(`usage: node test/jest/run.js ${Object.keys(CONFIGS).join('|')} [ARGUMENT OF JEST]...`);
  process.exit(2);
}
for (const problem of problems()) console.error(`kreplay tests: ${problem}`);
if (IS_ROOT && mode !== 'check' && isChroot()) process.exit(1);
sweepAbandonedRuns();

const folder = mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`));
// Tests start programs of users who own nothing.
chmodSync(folder, 0o1777);
const jest = [process.execPath, 'node_modules/jest/bin/jest.js', '--config', CONFIGS[mode], ...args];
const [file, ...rest] = IS_ROOT ? ['unshare', '--mount', '--propagation', 'private', ...jest] : jest;
const environment = { ...process.env, TMPDIR: folder, [MARK]: folder };
const child = spawn(file, rest, { stdio: 'inherit', env: environment });

let interrupted;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.on(signal, () => {
    interrupted ??= signal;
    // A terminal has sent SIGINT to jest as well, which ends by it at once.
    child.kill(signal);
  });
child.on('exit', (code, signal) => {
  const by = interrupted ?? signal;
  for (const { pid, command, suite } of removeRun(folder))
    if (!by) console.error(`kreplay tests: ${suite} left a process running, which is ended now: ${pid} ${command}`);
  process.exitCode = by ? 128 + constants.signals[by] : code;
});

/** What makes suites fail or be skipped here, in words. */
function problems() {
  const found = [];
  if (mode === 'check') return found;
  if (!IS_ROOT) found.push('not root: suites that record the kernel are skipped, and counted at the end');
  else if (isChroot())
    found.push(
      "this is a chroot, where the kernel names files from the machine's root and tests cannot mount; " +
        'make the folder the root of a mount namespace, with `unshare --mount` and `pivot_root`',
    );
  for (const { pid, command } of processes())
    if (/kreplay\S* (agent|up)\b/.test(command) && !command.includes(PREFIX))
      found.push(`an agent runs already, which records what tests do and slows them: process ${pid}, ${command}`);
  return found;
}

/** Whether the root folder is not that of the mount namespace, which a process that enters the namespace gets. */
function isChroot() {
  const enter = ['--mount=/proc/self/ns/mnt', 'stat', '--format=%d:%i', '/'];
  const { status, stdout } = spawnSync('nsenter', enter, { encoding: 'utf8' });
  const { dev, ino } = statSync('/');
  return status === 0 && stdout.trim() !== `${dev}:${ino}`;
}

function processes() {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => ({ pid, command: textOf(pid, 'cmdline').trim() }));
}

/** A file of a process with its parts divided by blanks; empty when the process has ended, or is another user's. */
function textOf(pid, file) {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

/** Ends what a run has left, and removes its files. Returns the processes that it found. */
function removeRun(run) {
  const left = processes()
    .map((one) => ({ ...one, environment: textOf(one.pid, 'environ') }))
    .filter(({ environment }) => environment.includes(`${MARK}=${run} `))
    .map((one) => ({ ...one, suite: /KREPLAY_TEST_SUITE=(\S+)/.exec(one.environment)?.[1] ?? 'the run' }));
  for (const { pid } of left)
    try {
      process.kill(Number(pid), 'SIGKILL');
    } catch {
      // It has ended by itself.
    }
  if (IS_ROOT) {
    detachLoops(run);
    restoreSysctl(join(run, 'sysctl'));
  }
  // What was mounted below it is gone with the namespace of the run.
  rmSync(run, { recursive: true, force: true, maxRetries: 20 });
  return left;
}

function detachLoops(run) {
  const { stdout } = spawnSync('losetup', ['--list', '--noheadings', '--output', 'NAME,BACK-FILE'], {
    encoding: 'utf8',
  });
  for (const line of (stdout ?? '').split('\n').filter((one) => one.includes(run)))
    spawnSync('losetup', ['--detach', line.split(' ')[0]]);
}

/** Sets what a killed suite changed (`test/kernel/sysctl.ts`). */
function restoreSysctl(kept) {
  if (!existsSync(kept)) return;
  for (const name of readdirSync(kept)) {
    const value = readFileSync(join(kept, name), 'utf8');
    if (value !== '') writeFileSync(join('/proc/sys', decodeURIComponent(name)), value);
  }
}

/** A run that was killed could not remove anything. */
function sweepAbandonedRuns() {
  for (const name of readdirSync(tmpdir())) {
    const pid = name.startsWith(PREFIX) && name.slice(PREFIX.length).split('-')[0];
    if (pid && textOf(pid, 'cmdline') === '') removeRun(join(tmpdir(), name));
  }
}
