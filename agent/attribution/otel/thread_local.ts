/**
 * Finds the thread-local variable of OpenTelemetry's thread context (OTEP 4947) in a process, in any of its modules.
 */
import { type BigIntStats, closeSync, constants, fstatSync, openSync, readlinkSync, statSync } from 'node:fs';
import { createFileReader, type Elf, type ReadAt, readElf } from '../elf/elf.ts';
import { createDeviceCheck } from './local_devices.ts';
import { found, missing, type Outcome, type ProcessReason } from './outcome.ts';
import { type Mapping, parseMaps, readMaps, toProcessReason } from './process_maps.ts';
import { openProcessMemory, type ProcessMemory } from './process_memory.ts';
import { computeProgramBlockDistance, readSlotAccess, type ThreadLocal, type ThreadLocalAccess } from './tls_access.ts';

export type { ThreadLocal } from './tls_access.ts';

export const THREAD_CONTEXT_SYMBOL = 'otel_thread_ctx_v1';
/** Size of the variable, which is a pointer. */
const SYMBOL_SIZE = 8;

export type ThreadLocalReason =
  | ProcessReason
  /** No program or library in the process has the variable; a library that is loaded later may have it. */
  | 'not_exported'
  /** Some files are unreadable, or reading them might block, and no other file has the variable. */
  | 'unreadable'
  /** The dynamic linker has not located the variable yet: try again. */
  | 'not_bound'
  /** The variable exists, but no relocation locates it, or the C library's thread vectors (dtv) have another layout. */
  | 'unsupported';

export interface ThreadLocalResolver {
  /**
   * Locates the variable in process `pid`. The result is valid until the process executes another program or unloads
   * the library that has the variable.
   */
  resolve(pid: number): Outcome<ThreadLocal, ThreadLocalReason>;
}

/** Maximum number of modules. A browser or a .NET process has a few hundred. */
const MODULES_MAX = 1024;
/** Maximum number of bytes read from all files of a process. A file without thread-local variables takes about 3 kB. */
const BYTES_MAX = 16 << 20;

/** A mapped file with code: a program or a library. */
interface Module {
  readonly mapping: Mapping;
  readonly isProgram: boolean;
}

interface Search {
  readonly pid: number;
  readonly modules: readonly Module[];
  readonly memory: ProcessMemory;
  readonly budget: Budget;
  readonly isLocal: (device: string) => boolean;
}

/** Creates a resolver. It caches which files do not have the variable. */
export function createThreadLocalResolver(): ThreadLocalResolver {
  const definers = createModuleFiles();
  const users = createModuleFiles();
  return {
    resolve(pid) {
      const maps = readMaps(pid);
      if (maps.value === undefined) return maps;
      // An empty text means a kernel thread, which has no memory to open.
      if (maps.value === '') return missing('not_exported');
      const mappings = parseMaps(maps.value);
      const isLocal = createDeviceCheck();
      const memory = openProcessMemory(pid, mappings, isLocal);
      if (memory.value === undefined) return memory;
      try {
        const modules = selectModules(mappings, readExecutablePath(pid));
        if (modules.length > MODULES_MAX) return missing('too_large');
        const budget = { bytes: BYTES_MAX };
        const search: Search = { pid, modules, memory: memory.value, budget, isLocal };
        const access = findAccessByDefiners(definers, search);
        const settled = access === 'not_told' ? findAccessByUsers(users, search) : access;
        return budget.bytes < 0 && typeof settled !== 'object' ? missing('too_large') : toOutcome(settled, modules);
      } finally {
        memory.value.close();
      }
    },
  };
}

function readExecutablePath(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/exe`, 'latin1');
  } catch {
    return undefined;
  }
}

/**
 * Returns one mapping per file, the program first. The program's mapping need not be executable, because its code may
 * have been moved to larger pages.
 */
function selectModules(mappings: readonly Mapping[], executable: string | undefined): Module[] {
  const libraries = new Map<string, Module>();
  const programs = new Map<string, Module>();
  for (const mapping of mappings) {
    const { path, device, inode } = mapping;
    const isProgram = path === executable;
    if (!path.startsWith('/') || !(mapping.executable || isProgram)) continue;
    const file = `${device} ${inode}`;
    const modules = isProgram ? programs : libraries;
    if (!modules.get(file)?.mapping.executable) modules.set(file, { mapping, isProgram });
  }
  return [...programs.values(), ...libraries.values()];
}

type Settled = ThreadLocalAccess | FileProblem | 'not_exported';

/**
 * Uses the first module that has the variable. The order of the modules approximates the dynamic linker's search order.
 */
function findAccessByDefiners(files: ModuleFiles, { pid, modules, memory, budget, isLocal }: Search): Settled {
  let settled: Settled = 'not_exported';
  for (const module of modules) {
    const access = isLocal(module.mapping.device)
      ? files.examine(pid, module.mapping, budget, (elf) => findThreadLocalAccess(elf, module, memory))
      : 'unreadable';
    if (typeof access === 'object') return access;
    if (access !== undefined) settled = access;
    // Stops the search: the module itself has the variable, so its code does not use another module's variable.
    if (access === 'not_bound' || access === 'not_told') return access;
  }
  return settled;
}

/** Locates the variable in a module; returns undefined if the module does not have the variable. */
function findThreadLocalAccess(
  elf: Elf,
  { mapping, isProgram }: Module,
  memory: ProcessMemory,
): ThreadLocalAccess | undefined {
  const symbol = elf.findExportedTlsSymbol(THREAD_CONTEXT_SYMBOL);
  if (!symbol || !elf.tls || symbol.size !== SYMBOL_SIZE || symbol.value + SYMBOL_SIZE > elf.tls.memorySize) {
    return undefined;
  }
  if (isProgram || elf.isExecutable) {
    const distance = computeProgramBlockDistance(elf.tls);
    return distance === undefined ? 'not_told' : { mode: 'static', offset: symbol.value - distance };
  }
  const bias = elf.findLoadBias(mapping.start, mapping.offset);
  if (bias === undefined) return 'not_told';
  return readSlotAccess(elf, THREAD_CONTEXT_SYMBOL, symbol.value, bias, memory.read);
}

/**
 * Handles a library that has the variable but no relocation that locates it. Finds the location through the relocations
 * of modules that use the variable.
 */
function findAccessByUsers(files: ModuleFiles, { pid, modules, memory, budget, isLocal }: Search): Settled {
  let settled: Settled = 'not_told';
  for (const { mapping } of modules) {
    if (!isLocal(mapping.device)) continue;
    const access = files.examine(pid, mapping, budget, (elf) => {
      const bias = elf.findLoadBias(mapping.start, mapping.offset);
      if (bias === undefined) return 'not_told';
      const used = readSlotAccess(elf, THREAD_CONTEXT_SYMBOL, undefined, bias, memory.read);
      return used === 'not_told' ? undefined : used;
    });
    if (typeof access === 'object') return access;
    if (access === 'not_bound') settled = access;
  }
  return settled;
}

/** Matches glibc's dynamic linker, whose file name contains the version in Debian 11 and older. */
const GLIBC_LINKER = /\/ld-(linux-x86-64\.so\.2|2\.\d+\.so)( \(deleted\))?$/;

/**
 * Accepts dynamic access only with glibc, whose thread vectors have entries of 16 bytes. In musl's vectors, the same
 * index would yield the pointer of another module.
 */
function toOutcome(settled: Settled, modules: readonly Module[]): Outcome<ThreadLocal, ThreadLocalReason> {
  if (settled === 'not_told') return missing('unsupported');
  if (typeof settled === 'string') return missing(settled);
  const isSupported = settled.mode === 'static' || modules.some(({ mapping }) => GLIBC_LINKER.test(mapping.path));
  return isSupported ? found(settled) : missing('unsupported');
}

/*
 * Opens the files of programs and libraries through /proc/PID/map_files, which also works if a file was renamed or
 * deleted.
 */

/** Maximum number of cached files without the variable. A host has a few hundred libraries. */
const NEGATIVES_MAX = 1 << 14;

/** Bytes charged for each read in addition to its size, because many small reads take time, too. */
const READ_COST_BYTES = 512;

/** Number of bytes that may still be read for one process; negative if the budget was exceeded. */
interface Budget {
  bytes: number;
}

type FileProblem = 'not_permitted' | 'unreadable';

interface ModuleFiles {
  /**
   * Applies `examine` to the file of a mapping. An undefined result is cached until the file changes, so all calls must
   * pass the same `examine`.
   */
  examine<Result extends object | string>(
    pid: number,
    mapping: Mapping,
    budget: Budget,
    examine: (elf: Elf) => Result | undefined,
  ): Result | FileProblem | undefined;
}

function createModuleFiles(): ModuleFiles {
  const negatives = new Set<string>();

  function remember(identity: string): void {
    // Removes the file that was added first.
    if (negatives.size >= NEGATIVES_MAX) negatives.delete(negatives.values().next().value!);
    negatives.add(identity);
  }

  return {
    examine(pid, { start, end }, budget, examine) {
      const path = `/proc/${pid}/map_files/${start.toString(16)}-${end.toString(16)}`;
      let file: number | undefined;
      try {
        const stat = statSync(path, { bigint: true });
        const identity = toFileIdentity(stat);
        // Only regular files are opened, because opening a device may have side effects.
        if ((Number(stat.mode) & constants.S_IFMT) !== constants.S_IFREG || negatives.has(identity)) return undefined;
        file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
        if (toFileIdentity(fstatSync(file, { bigint: true })) !== identity) return 'unreadable';
        const elf = readElf(limitReads(budget, createFileReader(file)));
        const result = elf && examine(elf);
        if (result === undefined && budget.bytes >= 0) remember(identity);
        return result;
      } catch (error) {
        // Any other error means that the file was unmapped or the process has ended.
        return toProcessReason(error) === 'not_permitted' ? 'not_permitted' : 'unreadable';
      } finally {
        if (file !== undefined) closeSync(file);
      }
    },
  };
}

function toFileIdentity({ dev, ino, mtimeNs, size }: BigIntStats): string {
  return `${dev} ${ino} ${mtimeNs} ${size}`;
}

function limitReads(budget: Budget, read: ReadAt): ReadAt {
  return (offset, size) => {
    budget.bytes -= size + READ_COST_BYTES;
    return budget.bytes < 0 ? undefined : read(offset, size);
  };
}
