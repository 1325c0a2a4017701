/**
 * Chooses the processes whose requests the kernel side reads: those of named services whose threads serve one request
 * at a time.
 */
import { readdirSync } from 'node:fs';
import type { Cgroups } from './cgroups.ts';
import { isGoProgram } from './go_program.ts';
import { programOfProcess } from './proc_program.ts';
import type { Program } from './programs.ts';
import { serviceNameOf } from './service_name/service_name.ts';
import { START_ROUNDING_NS } from './start_time.ts';

/** Matches every service. */
export const ANY_SERVICE = '*';

/** Event loops: one of their threads serves many requests at once. */
const EVENT_LOOPS = new Set(['node', 'nodejs', 'bun', 'deno']);

export interface HttpProcesses {
  /** Called when a process that started at `startNs` has been defined. */
  consider(pid: number, startNs: number, service: string, executable: string): void;
  /** Checks the processes that run already; `nowNs` is CLOCK_BOOTTIME. */
  considerAll(cgroups: Cgroups, nowNs: number): void;
}

/** Requests that the kernel side read a process's requests, if the process started by this time (CLOCK_BOOTTIME). */
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
