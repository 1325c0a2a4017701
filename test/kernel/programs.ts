/** Known workloads and independent observers for the kernel tests. */
import { type ExecFileSyncOptionsWithStringEncoding, execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, renameSync } from 'node:fs';
import { join, resolve } from 'node:path';

export const ROOT = resolve(import.meta.dirname, '../..');
const BUILD = join(ROOT, 'build/test');

/** Compiles test/kernel/NAME.c and returns the path of the program; a build with other `options` is called `as`. */
export function compileProgram(name: string, options: readonly string[] = [], as = name): string {
  mkdirSync(BUILD, { recursive: true });
  const program = join(BUILD, as);
  const unfinished = `${program}.${process.pid}`;
  execFileSync('gcc', [
    '-O2',
    '-Wall',
    '-Wextra',
    '-pthread',
    join(import.meta.dirname, `${name}.c`),
    '-o',
    unfinished,
    ...options,
  ]);
  renameSync(unfinished, program);
  return program;
}

/** Runs a command to its end and returns its standard output. */
export function run(
  file: string,
  args: readonly string[],
  options: Partial<ExecFileSyncOptionsWithStringEncoding> = {},
) {
  return execFileSync(file, args, { encoding: 'utf8', ...options });
}

export function bash(script: string, options: Partial<ExecFileSyncOptionsWithStringEncoding> = {}): string {
  return run('bash', ['-c', script], options);
}

/** The wall clock as another program reads it: nanoseconds since the epoch. */
export function wallClockNs(): bigint {
  return BigInt(run('date', ['+%s%N']).trim());
}

/** Runs `workload` while bpftrace watches, and returns what its END block and maps printed. */
export async function watchedByBpftrace(script: string, workload: () => void): Promise<string> {
  if (!existsSync('/sys/kernel/tracing/events')) run('mount', ['-t', 'tracefs', 'tracefs', '/sys/kernel/tracing']);
  const tracer = spawn('bpftrace', ['-e', `BEGIN { printf("watching\\n"); } ${script}`]);
  let output = '';
  let complaints = '';
  tracer.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints += text;
  });
  const watching = new Promise<void>((started, failed) => {
    tracer.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (output.includes('watching')) started();
    });
    tracer.once('exit', () => failed(new Error(`bpftrace: ${complaints}`)));
  });
  await watching;
  const ended = new Promise((resolve) => tracer.once('exit', resolve));
  try {
    workload();
  } finally {
    tracer.kill('SIGINT');
    await ended;
  }
  return output;
}

/** Values of a bpftrace map that is printed as `@name[key]: value`. */
export function bpftraceMap(output: string, name: string): Record<string, number> {
  const lines = output.matchAll(new RegExp(`^@${name}\\[(.*)\\]: (-?\\d+)$`, 'gm'));
  return Object.fromEntries([...lines].map(([, key, value]) => [key, Number(value)]));
}
