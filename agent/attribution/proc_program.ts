/** Reads a program from /proc, for a process whose definition is incomplete. */
import { readFileSync, readlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { ARGUMENTS_SIZE } from '../../bpf/schema/definitions.ts';
import { type Program, parseEnvironment, splitStrings } from './programs.ts';

/** Nanoseconds per tick of USER_HZ, the unit of times in /proc, whatever the kernel's own clock rate; sysconf(3). */
const NS_PER_TICK = 1e7;

/** Indices of starttime and startstack after the command, which may contain blanks and brackets: proc_pid_stat(5). */
const START_FIELD = 19;
const STACK_FIELD = 25;

/** A program that a process runs, until its next exec. */
export interface RunningProgram {
  pid: number;
  /** Start time of the process (CLOCK_BOOTTIME). */
  startNs: number;
  /** Number of the exec that started the program: the process may have executed other programs before. */
  execId: number;
  /** Address of the program's first stack frame. It is random, unless the program has asked for fixed addresses. */
  stackStart: number;
}

/** Returns undefined if the process is gone, or runs another program than `running`. */
export function readProcessProgram(pid: number, running?: RunningProgram): Program | undefined {
  try {
    const program: Program = {
      executable: basename(readlinkSync(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, '')),
      args: splitStrings(readFileSync(`/proc/${pid}/cmdline`).subarray(0, ARGUMENTS_SIZE).toString()),
      environment: parseEnvironment(readFileSync(`/proc/${pid}/environ`, 'utf8')),
      environmentCut: false,
    };
    // This check comes last, to make sure that everything was read from this program.
    return !running || isStillRunning(running) ? program : undefined;
  } catch {
    return undefined;
  }
}

export function isSameProgram(a: RunningProgram, b: RunningProgram): boolean {
  return a.pid === b.pid && a.startNs === b.startNs && a.execId === b.execId && a.stackStart === b.stackStart;
}

/** Returns whether the process still runs this program, as far as the agent can tell: the stack may be hidden. */
export function isStillRunning(program: RunningProgram): boolean {
  const stack = readStackAddress(program);
  return stack !== undefined && (stack === 0 || stack === program.stackStart);
}

/** Returns whether the process still exists, whatever program it runs by now. */
export function isStillThere(process: Pick<RunningProgram, 'pid' | 'startNs'>): boolean {
  return readStackAddress(process) !== undefined;
}

/** Address of the first stack frame, 0 where it is hidden; undefined if the process is gone. */
function readStackAddress({ pid, startNs }: Pick<RunningProgram, 'pid' | 'startNs'>): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(fields[START_FIELD]) === Math.floor(startNs / NS_PER_TICK) ? Number(fields[STACK_FIELD]) : undefined;
  } catch {
    return undefined;
  }
}
