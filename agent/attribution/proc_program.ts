/** Reads a program from /proc, for a process whose definition is incomplete. */
import { readFileSync, readlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { ARGUMENTS_SIZE } from '../../bpf/schema/definitions.ts';
import { type Program, parseEnvironment, splitStrings } from './programs.ts';

/**
 * Nanoseconds per tick of USER_HZ (100 Hz), the unit of times in /proc, independent of the kernel's timer rate:
 * sysconf(3).
 */
const NS_PER_TICK = 1e7;

/**
 * Indices of starttime and startstack among the fields that follow the command name, which may contain blanks and
 * brackets: proc_pid_stat(5).
 */
const START_FIELD = 19;
const STACK_FIELD = 25;

/** A program that a process runs, until its next exec. */
export interface RunningProgram {
  pid: number;
  /** Start time of the process (CLOCK_BOOTTIME). */
  startNs: number;
  /** Number of the exec that started the program: the process may have executed other programs before. */
  execId: number;
  /** Address of the program's first stack frame. Usually the address is random, so it identifies the program. */
  stackStart: number;
}

/**
 * Reads the program of a process. Returns undefined if the process has ended, or runs another program than `running`.
 */
export function readProcessProgram(pid: number, running?: RunningProgram): Program | undefined {
  try {
    const program: Program = {
      executable: basename(readlinkSync(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, '')),
      args: splitStrings(readFileSync(`/proc/${pid}/cmdline`).subarray(0, ARGUMENTS_SIZE).toString()),
      environment: parseEnvironment(readFileSync(`/proc/${pid}/environ`, 'utf8')),
      environmentCut: false,
    };
    // Checked last, so that everything above was read from this program.
    return !running || isStillRunning(running) ? program : undefined;
  } catch {
    return undefined;
  }
}

export function isSameProgram(a: RunningProgram, b: RunningProgram): boolean {
  return a.pid === b.pid && a.startNs === b.startNs && a.execId === b.execId && a.stackStart === b.stackStart;
}

/**
 * Returns whether the process still runs `program`. If the kernel hides the stack's address, checks only that the
 * process still exists.
 */
export function isStillRunning(program: RunningProgram): boolean {
  const stack = readStackAddress(program);
  return stack !== undefined && (stack === 0 || stack === program.stackStart);
}

/** Returns whether the process still exists, whatever program it runs by now. */
export function isStillThere(process: Pick<RunningProgram, 'pid' | 'startNs'>): boolean {
  return readStackAddress(process) !== undefined;
}

/** Returns the address of the first stack frame: 0 if the kernel hides it, undefined if the process has ended. */
function readStackAddress({ pid, startNs }: Pick<RunningProgram, 'pid' | 'startNs'>): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(fields[START_FIELD]) === Math.floor(startNs / NS_PER_TICK) ? Number(fields[STACK_FIELD]) : undefined;
  } catch {
    return undefined;
  }
}
