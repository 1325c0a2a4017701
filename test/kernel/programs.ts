/** Known workloads and independent observers for the kernel tests. */
import { type ExecFileSyncOptionsWithStringEncoding, execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

export const ROOT = resolve(import.meta.dirname, '../..');
const BUILD = join(ROOT, 'build/test');

/** Compiles test/kernel/NAME.c and returns the path of the program; a build with other `options` is called `as`. */
export function compileProgram(name: string, options: readonly string[] = [], as = name): string {
  const source = join(import.meta.dirname, `${name}.c`);
  return built([source], [as, ...options], as, (program) =>
    run('gcc', ['-O2', '-Wall', '-Wextra', '-pthread', source, '-o', program, ...options]),
  );
}

/** Returns the path of build/test/NAME, which `make` leaves there unless it was made of the same sources before. */
export function built(
  sources: readonly string[],
  how: readonly string[],
  name: string,
  make: (program: string) => void,
): string {
  const program = join(BUILD, name);
  const hash = createHash('sha256').update(JSON.stringify(how));
  for (const source of sources) hash.update(readFileSync(source));
  const [made, stamp] = [hash.digest('hex'), `${program}.made_of`];
  if (existsSync(program) && existsSync(stamp) && readFileSync(stamp, 'latin1') === made) return program;
  mkdirSync(BUILD, { recursive: true });
  const unfinished = `${program}.${process.pid}`;
  make(unfinished);
  rmSync(program, { recursive: true, force: true });
  renameSync(unfinished, program);
  writeFileSync(stamp, made);
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

/** Mounts tracefs where the machine has not: bpftrace knows the tracepoints from it. */
export function mountTracefs(): void {
  if (!existsSync('/sys/kernel/tracing/events')) run('mount', ['-t', 'tracefs', 'tracefs', '/sys/kernel/tracing']);
}

/** Runs `workload` while bpftrace watches, and returns what its END block and maps printed. */
export async function watchedByBpftrace(script: string, workload: () => void): Promise<string> {
  mountTracefs();
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
