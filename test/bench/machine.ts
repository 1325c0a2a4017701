/** Describes the machine a bench runs on: facts for its result, and which CPUs it may use. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, loadavg, release } from 'node:os';

export interface Machine {
  kernel: string;
  cpu: string;
  cpus: number;
}

/** Other activity on the machine that influences the numbers. */
export interface Disturbance {
  /** Load average over the last minute. */
  load_average: number;
  /** Attached BPF programs of others: each may slow down every load, including the untraced one. */
  tracing_programs: number;
}

export function machine(): Machine {
  const all = cpus();
  return { kernel: release(), cpu: all[0]?.model ?? 'unknown', cpus: all.length };
}

const TRACING_TYPES = new Set(['tracing', 'tracepoint', 'raw_tracepoint', 'raw_tracepoint_writable', 'kprobe', 'lsm']);

export function disturbance(): Disturbance {
  const programs = JSON.parse(execFileSync('/usr/sbin/bpftool', ['--json', 'prog', 'show'], { encoding: 'utf8' }));
  const tracing = (programs as { type: string }[]).filter(({ type }) => TRACING_TYPES.has(type));
  return { load_average: loadavg()[0]!, tracing_programs: tracing.length };
}

/** Numbers of the CPUs that this process may use. */
export function allowedCpus(): number[] {
  const list = /^Cpus_allowed_list:\s*(.*)$/m.exec(readFileSync('/proc/self/status', 'utf8'))![1]!;
  return list.split(',').flatMap((range) => {
    const [first, last = first] = range.split('-').map(Number) as [number, number?];
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}
