/**
 * Chooses the processes whose requests the kernel side reads: those that belong to named services and whose threads
 * serve one request at a time.
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

/** Selects the processes whose requests the kernel side reads. */
export interface RequestReading {
  /**
   * Selects a process that started by `startedByNs` (CLOCK_BOOTTIME), while it runs the program of `execId`; if
   * `execId` is undefined, until the next exec of the process.
   */
  watch(pid: number, startedByNs: number, execId: number | undefined): void;
  unwatch(pid: number): void;
}

export function createHttpProcesses({ watch, unwatch }: RequestReading, services: readonly string[]): HttpProcesses {
  const wanted = new Set(services);
  /** Processes that considerAll() watches without an exec id, until consider() gets their definition. */
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
 * Detects Go programs: their goroutines move between threads, so a thread does not stay with the request that it read.
 */

/**
 * The section in which the linker stores the versions of what it linked; stripping keeps the section. See cmd/link,
 * debug/buildinfo.
 */
const GO_SECTION = '.go.buildinfo';

/**
 * Text at the start of that section, whose contents are near the start of the program's writable data: debug/buildinfo.
 */
const GO_MAGIC = Buffer.from('\xff Go buildinf:', 'latin1');
const DATA_BYTES_MAX = 1 << 20;

/**
 * Returns undefined if the program's file cannot be read or is not a 64-bit ELF file: a 32-bit program may be a Go
 * program as well.
 */
export function isGoProgram(pid: number): boolean | undefined {
  let file: number | undefined;
  try {
    file = openSync(`/proc/${pid}/exe`, 'r');
    const elf = readElf(createFileReader(file));
    return elf && hasBuildInfo(elf);
  } catch {
    return undefined; // The process is gone or another user's.
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/** Packers remove the sections but keep the data. */
function hasBuildInfo(elf: Elf): boolean | undefined {
  const names = elf.readSectionNames();
  if (!names) return undefined;
  if (names.includes(GO_SECTION)) return true;
  const data = elf.readDataStart(DATA_BYTES_MAX);
  return data && Buffer.from(data.buffer, data.byteOffset, data.byteLength).includes(GO_MAGIC);
}
