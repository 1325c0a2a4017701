/** Compiles and runs programs that publish OpenTelemetry contexts. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, renameSync } from 'node:fs';
import { join, resolve } from 'node:path';

const BUILD = resolve(import.meta.dirname, '../../../../build/test/otel');

/** Compiles and links test/agent/attribution/otel/SOURCE.c into build/test/otel/NAME, and returns its path. */
export function compile(name: string, sources: readonly string[], options: readonly string[] = []): string {
  mkdirSync(BUILD, { recursive: true });
  const file = join(BUILD, name);
  const unfinished = `${file}.${process.pid}`;
  const paths = sources.map((source) => join(import.meta.dirname, `${source}.c`));
  execFileSync('gcc', ['-O2', '-Wall', '-Wextra', '-pthread', ...paths, '-o', unfinished, ...options]);
  renameSync(unfinished, file);
  return file;
}

export interface Running {
  pid: number;
  /** Lines that it printed before it was ready. */
  lines: string[];
  child: ChildProcess;
}

const running: ChildProcess[] = [];

/** Resolves when the program reports that it is ready. */
export async function start(program: string, args: readonly string[] = []): Promise<Running> {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  running.push(child);
  const lines: string[] = [];
  let rest = '';
  for await (const text of child.stdout!.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    const parts = (rest + text).split('\n');
    rest = parts.pop()!;
    lines.push(...parts);
    if (lines.at(-1) === 'ready') return { pid: child.pid!, lines: lines.slice(0, -1), child };
  }
  throw new Error(`${program} ended before it was ready`);
}

/** Call it in afterEach(). */
export async function stopAll(): Promise<void> {
  for (const child of running.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
}
