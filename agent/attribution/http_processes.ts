/**
 * Chooses the processes whose HTTP requests the kernel side reads. Such a process belongs to one of the configured
 * services, and each of its threads serves one request at a time.
 */
import { closeSync, openSync, readdirSync } from 'node:fs';
import type { Cgroups } from './cgroups.ts';
import { createFileReader, type Elf, readElf } from './elf/elf.ts';
import { type RunningProgram, readProcessProgram } from './proc_program.ts';
import type { Program } from './programs.ts';
import { chooseServiceName } from './service_name/service_name.ts';
import { START_ROUNDING_NS } from './start_time.ts';

/** Name that stands for every service. */
export const ANY_SERVICE = '*';

/** Programs with an event loop: one thread of such a program serves many requests at once. */
const EVENT_LOOPS = new Set(['node', 'nodejs', 'bun', 'deno']);

export interface HttpProcesses {
  /** Called when the program that a process runs has been defined. */
  consider(program: RunningProgram, service: string, executable: string): void;
  /** Checks the processes that are already running; `nowNs` is CLOCK_BOOTTIME. */
  considerAll(cgroups: Cgroups, nowNs: number): void;
}

/** Switches the kernel side's reading of requests on and off for a process. */
export interface RequestReading {
  /**
   * Starts reading the requests of process `pid`, if it started at `startedByNs` (CLOCK_BOOTTIME) or before. Reading
   * ends when the process no longer runs the program of `execId`; if `execId` is undefined, at the next exec.
   */
  watch(pid: number, startedByNs: number, execId: number | undefined): void;
  unwatch(pid: number): void;
}

export function createHttpProcesses({ watch, unwatch }: RequestReading, services: readonly string[]): HttpProcesses {
  const wanted = new Set(services);
  /**
   * Processes that considerAll() watches without an exec id. consider() removes a process when its program is defined.
   */
  const early = new Set<number>();

  function isServedByThreads(pid: number, service: string, executable: string): boolean {
    if (!wanted.has(service) && !wanted.has(ANY_SERVICE)) return false;
    return !EVENT_LOOPS.has(executable) && isGoProgram(pid) === false;
  }

  return {
    consider({ pid, startNs, execId }, service, executable) {
      const isEarly = early.delete(pid);
      if (isServedByThreads(pid, service, executable)) watch(pid, startNs + START_ROUNDING_NS, execId);
      else if (isEarly) unwatch(pid);
    },
    considerAll(cgroups, nowNs) {
      for (const pid of listProcessIds()) {
        const program = readProcessProgram(pid);
        if (!program) continue;
        const service = nameService(program, cgroups.readProcessPath(pid));
        if (!isServedByThreads(pid, service, program.executable)) continue;
        watch(pid, nowNs, undefined);
        early.add(pid);
      }
    },
  };
}

function nameService({ executable, args, environment }: Program, cgroupPath: string | undefined): string {
  return chooseServiceName({ executable, args, environment, cgroupPath, isKernelThread: false }).name;
}

function listProcessIds(): number[] {
  return readdirSync('/proc').map(Number).filter(Number.isInteger);
}

/*
 * Detects Go programs. Goroutines move between threads, so the thread that reads a request may not be the thread that
 * serves it.
 */

/**
 * The section in which the Go linker stores the versions of the linked modules; stripping keeps the section. See
 * cmd/link, debug/buildinfo.
 */
const GO_SECTION = '.go.buildinfo';

/** Text at the start of GO_SECTION. The section is near the start of the program's writable data: debug/buildinfo. */
const GO_MAGIC = Buffer.from('\xff Go buildinf:', 'latin1');
const DATA_BYTES_MAX = 1 << 20;

/**
 * Whether process `pid` runs a Go program; undefined if that is unknown, because the program's file cannot be read or
 * is not a 64-bit ELF file.
 */
export function isGoProgram(pid: number): boolean | undefined {
  let file: number | undefined;
  try {
    file = openSync(`/proc/${pid}/exe`, 'r');
    const elf = readElf(createFileReader(file));
    return elf && hasBuildInfo(elf);
  } catch {
    return undefined; // The process has ended or belongs to another user.
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/**
 * Returns whether the file has Go's build information: in its section or, because packers remove sections, in the data.
 */
function hasBuildInfo(elf: Elf): boolean | undefined {
  const names = elf.readSectionNames();
  if (!names) return undefined;
  if (names.includes(GO_SECTION)) return true;
  const data = elf.readDataStart(DATA_BYTES_MAX);
  return data && Buffer.from(data.buffer, data.byteOffset, data.byteLength).includes(GO_MAGIC);
}
