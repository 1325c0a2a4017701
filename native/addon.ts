import { createRequire } from 'node:module';
import { createMisuseError } from './errors.ts';

export interface ProgramInfo {
  readonly name: string;
  /** ELF section, such as 'tp_btf/sys_enter'. */
  readonly section: string;
  /** A value of `enum bpf_prog_type`. */
  readonly type: number;
  /** Whether load() loads the program. */
  readonly autoload: boolean;
  readonly attached: boolean;
}

export interface MapInfo {
  readonly name: string;
  /** A value of `enum bpf_map_type`. */
  readonly type: number;
  /** Size of a key in bytes. */
  readonly keySize: number;
  /** Size of a value in bytes; in a per-CPU map, the size of one CPU's value. */
  readonly valueSize: number;
  /** Maximum number of entries; for a ring buffer, its size in bytes. */
  readonly maxEntries: number;
}

export interface ProgramStats {
  readonly name: string;
  /** The kernel's id of the program, which bpftool shows. */
  readonly id: number;
  /**
   * Number of runs, and nanoseconds spent in them, while statistics were on: setRunStats() or sysctl
   * kernel.bpf_stats_enabled.
   */
  readonly runCount: bigint;
  readonly runTimeNs: bigint;
  /**
   * Number of runs that the kernel skipped because the program was already running on that CPU. They are counted even
   * while statistics are off.
   */
  readonly recursionMisses: bigint;
}

/** The object in C++, which checks every argument itself. The TypeScript classes only wrap this object. */
export interface NativeObject {
  close(): void;
  programs(): ProgramInfo[];
  maps(): MapInfo[];
  setAutoload(program: string, on: boolean): void;
  setAutocreate(map: string, on: boolean): void;
  setMaxEntries(map: string, count: number): void;
  load(): void;
  variables(): NativeVariable[];
  setVariable(name: string, value: Uint8Array): void;
  attach(program: string): boolean;
  attachAll(): string[];
  detach(program: string): void;
  detachAll(): void;
  testRun(
    program: string,
    dataIn: Uint8Array | undefined,
    dataOut: Uint8Array | undefined,
    ctxIn: Uint8Array | undefined,
    repeat: number,
  ): [returnValue: number, durationNs: number, dataOutBytes: number];
  iterate(program: string): Uint8Array;
  programStats(): ProgramStats[];
  setRunStats(on: boolean): void;
  mapOpen(map: number): number;
  mapGet(map: number, key: Uint8Array, into: Uint8Array): boolean;
  mapSet(map: number, key: Uint8Array, value: Uint8Array, flags: number): void;
  mapSetMap(outer: number, key: Uint8Array, inner: number): void;
  mapDelete(map: number, key: Uint8Array): boolean;
  mapKeys(map: number): Uint8Array;
  ringOpen(map: number): number;
  ringsCreate(map: number, count: number, sizeBytes: number): number;
  ringDrain(ring: number, buffer: Uint8Array, start: number): number;
  ringPending(ring: number): number;
  ringConsumed(ring: number): number;
  ringTakePeak(ring: number): number;
  ringWait(ring: number, callback: (isReadable: boolean) => void): void;
  ringEndWait(ring: number): void;
  ringClose(ring: number): void;
}

export interface NativeVariable {
  name: string;
  size: number;
  kind: 'unsigned' | 'signed' | 'boolean' | 'bytes';
}

interface Addon {
  NativeObject: new (file: string | Uint8Array, name: string, logLevel: number) => NativeObject;
  clockState(): { synchronized: boolean; estimatedErrorUs: number; maxErrorUs: number };
  readClocks(into: BigInt64Array): void;
  features(): Record<string, boolean> & { libbpf: string };
  possibleCpus(): number;
  btfFieldExists(type: string, path: string): boolean;
  btfEnumerator(name: string): number | undefined;
  btfArgumentCounts(names: readonly string[], module: string): number[];
  dropKernelTypes(): void;
  tracepointsArePreempted(): boolean | undefined;
}

let loaded: Addon | undefined;

/**
 * Loads the addon at the first use rather than at the import. So a program can report a missing library, and can use
 * functions that need no addon. The Makefile puts the addon into the folder of the compiled JavaScript.
 */
export function loadAddon(): Addon {
  try {
    loaded ??= createRequire(import.meta.url)('./libbpf_ts.node') as Addon;
    return loaded;
  } catch (error) {
    const { message } = error as Error;
    const needs =
      'Linux on x86-64, glibc 2.36 or later, libelf.so.1 and libz.so.1 (Debian: apt install libelf1 zlib1g)';
    const refusal = `libbpf-ts cannot load its addon, which needs ${needs}: ${message}`;
    throw Object.assign(createMisuseError(Error, 'ERR_ADDON', refusal), { cause: error });
  }
}
