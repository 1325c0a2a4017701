/** Of which processes the kernel side reads requests: those of named services whose threads serve one at a time. */
import { readdirSync } from 'node:fs';
import type { Cgroups } from './cgroups.ts';
import { isGoProgram } from './go_program.ts';
import { programOfProcess } from './proc_program.ts';
import type { Program } from './programs.ts';
import { serviceNameOf } from './service_name/service_name.ts';
import { START_ROUNDING_NS } from './start_time.ts';

/** Every service. */
export const ANY_SERVICE = '*';

/** Event loops: a thread of theirs serves many requests at once. */
const EVENT_LOOPS = new Set(['node', 'nodejs', 'bun', 'deno']);

export interface HttpProcesses {
  /** A process that started at `startNs` was defined. */
  consider(pid: number, startNs: number, service: string, executable: string): void;
  /** Looks at the processes that were there before; `nowNs`: CLOCK_BOOTTIME. */
  considerAll(cgroups: Cgroups, nowNs: number): void;
}

/** Has the requests of a process read that had started by a time, CLOCK_BOOTTIME. */
export type WatchProcess = (pid: number, startedByNs: number) => void;

export function createHttpProcesses(watch: WatchProcess, services: readonly string[]): HttpProcesses {
  const wanted = new Set(services);

  function isServedByThreads(pid: number, service: string, executable: string): boolean {
    if (!wanted.has(service) && !wanted.has(ANY_SERVICE)) return false;
    return !EVENT_LOOPS.has(executable) && isGoProgram(pid) === false;
  }

  return {
    consider(pid, startNs, service, executable) {
      if (isServedByThreads(pid, service, executable)) watch(pid, startNs + START_ROUNDING_NS);
    },
    considerAll(cgroups, nowNs) {
      for (const pid of processIds()) {
        const program = programOfProcess(pid);
        if (!program) continue;
        const service = serviceOf(program, cgroups.pathOfProcess(pid));
        if (isServedByThreads(pid, service, program.executable)) watch(pid, nowNs);
      }
    },
  };
}

function serviceOf({ executable, args, environment }: Program, cgroupPath: string | undefined): string {
  return serviceNameOf({ executable, args, environment, cgroupPath, isKernelThread: false }).name;
}

function processIds(): number[] {
  return readdirSync('/proc').map(Number).filter(Number.isInteger);
}
