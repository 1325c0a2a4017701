/** Runs bpftrace and perf around a load. Each writes what it records to a file. */
import { type Ended, run } from './process.ts';

export interface PeerOptions {
  /** The load's program and arguments. */
  load: readonly string[];
  output: string;
  signal: AbortSignal;
}

/**
 * Prints a joined line for each call of the host, as kreplay has a record for each. The start is kept in one map, with
 * the descriptor in a tuple: one update, one lookup and one deletion are the least that bpftrace can do.
 */
export function printingScript(syscalls: readonly string[]): string {
  return syscalls
    .map(
      (syscall) => `
tracepoint:syscalls:sys_enter_${syscall} { @enter[tid] = (nsecs, args->fd); }
tracepoint:syscalls:sys_exit_${syscall} {
  $enter = @enter[tid];
  if ($enter.0) {
    printf("%d %d %d %d\\n", pid, $enter.1, args->ret, nsecs - $enter.0);
    delete(@enter[tid]);
  }
}`,
    )
    .join('');
}

/** -B full: with line buffering each line is a write, which would be traced and printed, in an endless loop. */
export function runBpftrace(script: string, { load, output, signal }: PeerOptions): Promise<Ended> {
  const program = ['bpftrace', '-B', 'full', '-o', output, '-c', load.join(' '), '-e', script];
  return run(program, { signal, tracefs: true });
}

/** Number of lines that `printingScript` printed for these processes. */
export async function linesOf(pids: readonly number[], output: string, signal: AbortSignal): Promise<number> {
  const mine = pids.map((pid) => `$1 == ${pid}`).join(' || ');
  // awk exits with 0 if nothing matches; grep -c does not.
  const { stdout } = await run(['awk', `${mine} { n++ } END { print n + 0 }`, output], { signal });
  return Number(stdout);
}

/** Records entries and exits of the load alone; perf follows a process, not the host. */
export function runPerf(syscalls: readonly string[], { load, output, signal }: PeerOptions): Promise<Ended> {
  const events = syscalls.flatMap((syscall) => perfEvents(syscall).flatMap((event) => ['-e', event]));
  return run(['perf', 'record', ...events, '-o', output, '--', ...load], { signal, tracefs: true });
}

/** Number of calls of which both ends are in the file. */
export async function perfSamples(syscalls: readonly string[], output: string, signal: AbortSignal): Promise<number> {
  const { stdout } = await run(['perf', 'report', '--stats', '-i', output], { signal, tracefs: true });
  const samplesOf = (event: string) =>
    Number(new RegExp(`^${event} stats:\\s+SAMPLE events:\\s+(\\d+)`, 'm').exec(stdout)?.[1] ?? 0);
  const calls = syscalls.map((syscall) => Math.min(...perfEvents(syscall).map(samplesOf)));
  return calls.reduce((total, count) => total + count, 0);
}

function perfEvents(syscall: string): string[] {
  return [`syscalls:sys_enter_${syscall}`, `syscalls:sys_exit_${syscall}`];
}
