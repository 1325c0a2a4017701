/** Reads a program from /proc, for a process whose definition is incomplete. */
import { readFileSync, readlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { ARGUMENTS_SIZE } from '../../bpf/schema/definitions.ts';
import { type Program, parseEnvironment, strings } from './programs.ts';

/** USER_HZ: the unit of times in /proc, whatever the kernel's own clock rate; sysconf(3). */
const NS_PER_TICK = 1e7;

/** Index of starttime after the command, which may contain blanks and brackets: proc_pid_stat(5). */
const START_FIELD = 19;

/** Returns undefined if the process is gone, or `pid` is not the process that started at `startNs`. */
export function programOfProcess(pid: number, startNs?: number): Program | undefined {
  try {
    const program: Program = {
      executable: basename(readlinkSync(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, '')),
      args: strings(readFileSync(`/proc/${pid}/cmdline`).subarray(0, ARGUMENTS_SIZE).toString()),
      environment: parseEnvironment(readFileSync(`/proc/${pid}/environ`, 'utf8')),
      environmentCut: false,
    };
    // Checked last, so that it was this process all the while.
    return startNs === undefined || isStartOf(pid, startNs) ? program : undefined;
  } catch {
    return undefined;
  }
}

/** Throws when there is no such process. */
export function isStartOf(pid: number, startNs: number): boolean {
  return startTicks(pid) === Math.floor(startNs / NS_PER_TICK);
}

/** Start time of a process (CLOCK_BOOTTIME), to ten milliseconds. Throws when there is no such process. */
export function startOfProcess(pid: number): number {
  return startTicks(pid) * NS_PER_TICK;
}

function startTicks(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[START_FIELD]);
}
