/**
 * `make test-kernels [KERNELS="oldest newest"]`: boots each kernel in QEMU, runs guest.ts in it, and ends with a table.
 * It says which kernels cannot be tested here, and why.
 */
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { homedir, release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { compileProgram, ROOT } from '../kernel/programs.ts';
import { PROGRAM_NAMES } from './guest_workloads.ts';
import { KERNELS, type Kernel } from './matrix.ts';

const run = promisify(execFile);

const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'kreplay/kernels');
/** Time limit on a busy machine, without virtualisation. */
const SECONDS_MAX = 480;
const DISK_MIB = 64;
/** Kernels that run at a time: each has two processors, and is emulated. */
const AT_ONCE = 2;
const SKIPPED = 'not tested';

interface Check {
  check: string;
  ok: boolean;
  text: string;
  seconds: number;
}

interface Outcome {
  kernel: string;
  version: string;
  checks: Check[];
  seconds: number;
  /** The reason why checks are missing. */
  reason?: string;
}

/** The one of QEMU up to 7.2, and its successor. */
const FILE_SERVERS = ['/usr/lib/qemu/virtiofsd', '/usr/libexec/virtiofsd'];
const NEEDED = ['/usr/bin/qemu-system-x86_64', '/bin/busybox', '/sbin/mkfs.ext4', '/sbin/depmod', '/usr/bin/lz4'];

function reasonAgainstAll(): string | undefined {
  if (process.getuid?.() !== 0) return 'the guests share files with this host, which takes root';
  const missing = NEEDED.filter((file) => !existsSync(file));
  if (!FILE_SERVERS.some((file) => existsSync(file))) missing.push('virtiofsd');
  return missing.length > 0 ? `${missing.join(', ')} missing, and could not be installed` : undefined;
}

function words(error: unknown): string {
  const { stderr, message } = error as { stderr?: string; message: string };
  return (stderr?.trim() || message).split('\n').slice(-3).join(' ');
}

async function versionOf({ name, source }: Kernel): Promise<string> {
  const [archive, suite, kernelPackage] = source!;
  const script = join(import.meta.dirname, 'fetch.sh');
  const { stdout } = await run(script, [CACHE, name, archive, suite, kernelPackage]);
  return stdout.trim();
}

function disksIn(folder: string): string[] {
  const disks = ['raw', 'ext4'].map((name) => join(folder, name));
  for (const disk of disks) execFileSync('truncate', ['-s', `${DISK_MIB}M`, disk]);
  execFileSync('mkfs.ext4', ['-qF', disks[1]!]);
  return disks;
}

async function test(kernel: Kernel, version: string): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-kernels-'));
  const startMs = performance.now();
  const outcome = (output: string, reason?: string): Outcome => ({
    kernel: kernel.name,
    version,
    checks: output
      .split('\n')
      .filter((line) => line.startsWith('{"check":'))
      .map((line) => JSON.parse(line) as Check),
    seconds: (performance.now() - startMs) / 1000,
    ...(reason !== undefined && { reason }),
  });
  try {
    const guest = [process.execPath, '--disable-warning=ExperimentalWarning', join(import.meta.dirname, 'guest.ts')];
    const boot = [join(CACHE, kernel.name), String(SECONDS_MAX), ...disksIn(folder), '--', ...guest, kernel.expected];
    const { stdout } = await run(join(import.meta.dirname, 'boot.sh'), boot, { cwd: ROOT });
    return outcome(stdout);
  } catch (error) {
    return outcome((error as { stdout?: string }).stdout ?? '', words(error));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function outcomeOf(kernel: Kernel): Promise<Outcome> {
  const none = { kernel: kernel.name, version: '', checks: [], seconds: 0 };
  if (!isAtHand(kernel)) {
    return { ...none, reason: `${SKIPPED}: ${kernel.without}` };
  }
  let version = kernel.name;
  if (kernel.source !== undefined) {
    try {
      version = await versionOf(kernel);
    } catch (error) {
      return { ...none, reason: `${SKIPPED}: it cannot be fetched (${words(error)})` };
    }
  }
  return test(kernel, version);
}

function hasFailed({ checks, reason }: Outcome): boolean {
  return checks.some(({ ok }) => !ok) || (reason !== undefined && !reason.startsWith(SKIPPED));
}

function show({ kernel, version, checks, seconds, reason }: Outcome): void {
  process.stdout.write(`\n${kernel} ${version} ${seconds > 0 ? `(${seconds.toFixed(1)} s)` : ''}\n`);
  for (const { check, ok, text, seconds: took } of checks) {
    process.stdout.write(`  ${ok ? 'ok    ' : 'FAILED'} ${check} (${took.toFixed(1)} s): ${text}\n`);
  }
  if (reason !== undefined) process.stdout.write(`  ${reason}\n`);
}

function table(outcomes: readonly Outcome[]): string {
  const rows = outcomes.map((outcome) => {
    const { kernel, version, checks, seconds, reason } = outcome;
    const passed = checks.filter(({ ok }) => ok).map(({ check }) => check);
    const failed = checks.filter(({ ok }) => !ok).map(({ check }) => check);
    const said = [passed.join(', '), failed.length > 0 && `FAILED: ${failed.join(', ')}`, reason].filter(Boolean);
    return [kernel, version, seconds > 0 ? seconds.toFixed(1) : '-', said.join('; ')];
  });
  const widths = [0, 1, 2].map((column) => Math.max(...rows.map((row) => row[column]!.length), 7));
  const line = (row: readonly string[]) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd();
  return [['kernel', 'version', 'seconds', 'passed'], ...rows].map(line).join('\n');
}

/** The oldest kernel that can be recorded, and can be had here. */
function oldest(): string {
  return KERNELS.find((kernel) => kernel.expected === 'recorded' && isAtHand(kernel))!.name;
}

const isAtHand = ({ name, source }: Kernel) => source !== undefined || existsSync(join(CACHE, name, 'vmlinux'));

async function main(words: readonly string[]): Promise<void> {
  const reason = reasonAgainstAll();
  if (reason !== undefined) {
    process.stdout.write(`kernels ${SKIPPED}: ${reason}\n`);
    return;
  }
  const names = words.map((word) => (word === 'oldest' ? oldest() : word));
  const unknown = names.filter((name) => !KERNELS.some((kernel) => kernel.name === name));
  if (unknown.length > 0) {
    process.stderr.write(
      `no kernel ${unknown.join(', ')}: there are oldest, ${KERNELS.map(({ name }) => name).join(', ')}\n`,
    );
    process.exitCode = 2;
    return;
  }
  for (const program of PROGRAM_NAMES) compileProgram(program);
  compileProgram('truth/markers_of_32_bits', [], 'markers_of_32_bits');
  const wanted = KERNELS.filter(({ name }) => names.length === 0 || names.includes(name));
  const outcomes: Outcome[] = [];
  const left = [...wanted];
  const testSome = async () => {
    for (let next = left.shift(); next; next = left.shift()) {
      const outcome = await outcomeOf(next);
      outcomes.push(outcome);
      show(outcome);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, testSome));
  const ordered = wanted.map(({ name }) => outcomes.find(({ kernel }) => kernel === name)!);
  process.stdout.write(`\n${table(ordered)}\nThis host's own kernel, ${release()}, is tested by \`make test\`.\n`);
  if (ordered.some(hasFailed)) process.exitCode = 1;
}

await main(process.argv.slice(2));
