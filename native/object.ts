import { loadAddon, type MapInfo, type NativeObject, type ProgramInfo, type ProgramStats } from './addon.ts';
import { createMisuseError, runWithBpfErrors } from './errors.ts';
import { BpfMap } from './map.ts';
import { RingReader } from './ring.ts';
import { encodeVariable, type VariableValue } from './variable.ts';

export interface OpenOptions {
  /** Name of the object, which prefixes the names of its global-data maps. Default: from the file name. */
  name?: string;
  /**
   * Level of the verifier's log: 1 logs instructions, 2 also states, 4 only statistics. By default, level 1 is used
   * after a failure.
   */
  logLevel?: number;
}

export interface VariableInfo {
  readonly name: string;
  /** Size in bytes. */
  readonly size: number;
  /**
   * The type that setReadOnly() accepts in addition to a Uint8Array of `size` bytes. 'bytes' means that only the
   * Uint8Array is accepted.
   */
  readonly kind: 'unsigned' | 'signed' | 'boolean' | 'bytes';
}

export interface TestRunOptions {
  /** The packet, for program types that take one. */
  dataIn?: Uint8Array;
  /** The buffer for the packet after the run. */
  dataOut?: Uint8Array;
  /** The context. The changes that a `SEC("syscall")` program makes are written back into this array. */
  ctxIn?: Uint8Array;
  /** The number of runs; only for program types that take a packet. */
  repeat?: number;
}

export interface TestRunResult {
  /** The return value of the program, an unsigned 32-bit integer. */
  readonly returnValue: number;
  /** Mean duration of a run; 0 if the kernel does not measure it. */
  readonly durationNs: number;
  /** Size of the packet after the run in bytes; more than the length of `dataOut` if `dataOut` was too small. */
  readonly dataOutBytes: number;
}

/**
 * A BPF object file: open it, set it up, load() it, attach() it, close() it.
 *
 * close() releases all kernel resources of the object. This also happens when the worker or the process ends, and when
 * the object is garbage-collected. After that, maps and rings of the object throw ERR_CLOSED.
 */
export class BpfObject {
  readonly #native: NativeObject;

  private constructor(native: NativeObject) {
    this.#native = native;
  }

  /**
   * Reads an ELF file, or the bytes of an ELF file. Requires no privileges and changes nothing in the kernel.
   * @throws BpfError ENOENT, EACCES: the file; ERR_BPF_FORMAT, ERR_LIBELF: it is not a BPF object
   */
  static open(file: string | Uint8Array, options: OpenOptions = {}): BpfObject {
    const { NativeObject } = loadAddon();
    return new BpfObject(runWithBpfErrors(() => new NativeObject(file, options.name ?? '', options.logLevel ?? 0)));
  }

  get programs(): readonly ProgramInfo[] {
    return this.#native.programs();
  }

  get maps(): readonly MapInfo[] {
    return this.#native.maps();
  }

  /** The `const volatile` globals that setReadOnly() can set. */
  get variables(): readonly VariableInfo[] {
    return this.#native.variables();
  }

  /**
   * Sets a `const volatile` global; must be called before load(). The verifier then sees a constant, and removes the
   * branches that become unreachable.
   * @throws ERR_NOT_FOUND; ERR_OUT_OF_RANGE: the value does not fit the variable's size and sign
   */
  setReadOnly(variable: string, value: VariableValue): void {
    const info = this.#native.variables().find((each) => each.name === variable);
    if (info === undefined) {
      throw createMisuseError(Error, 'ERR_NOT_FOUND', `No read-only variable '${variable}' in this object`);
    }
    this.#native.setVariable(variable, encodeVariable(info, value));
  }

  /** Sets whether load() loads this program; must be called before load(). */
  setAutoload(program: string, on: boolean): void {
    runWithBpfErrors(() => this.#native.setAutoload(program, on));
  }

  /** Sets whether load() creates this map; must be called before load(). */
  setAutocreate(map: string, on: boolean): void {
    runWithBpfErrors(() => this.#native.setAutocreate(map, on));
  }

  /**
   * Sets the size of a map; must be called before load(). The size of a ring buffer is in bytes, and libbpf rounds it
   * up to a power-of-two number of pages.
   */
  setMaxEntries(map: string, count: number): void {
    runWithBpfErrors(() => this.#native.setMaxEntries(map, count));
  }

  /**
   * Creates the maps and loads the programs. After a failure the object can only be closed.
   * @throws BpfError with `program` and, if the verifier refused it, `verifierLog`
   */
  load(): void {
    runWithBpfErrors(() => this.#native.load());
  }

  /**
   * Attaches one program, or all loaded programs whose section name specifies the target, except iterators. Returns the
   * names of the programs that were not attached before. If a program fails, the programs that this call attached are
   * detached.
   * @throws BpfError with `program`
   */
  attach(program?: string): string[] {
    if (program === undefined) return runWithBpfErrors(() => this.#native.attachAll());
    return runWithBpfErrors(() => this.#native.attach(program)) ? [program] : [];
  }

  /** Detaches one program, or all programs. Ignores programs that are not attached. */
  detach(program?: string): void {
    if (program === undefined) this.#native.detachAll();
    else this.#native.detach(program);
  }

  /**
   * Returns a map by name; must be called after load().
   * @throws ERR_NOT_FOUND, ERR_NOT_LOADED
   */
  map(name: string): BpfMap {
    const index = this.#mapIndex(name);
    return new BpfMap(this.#native, index);
  }

  /**
   * Maps a ring buffer's memory; must be called after load(). A ring can have only one reader at a time.
   * @throws ERR_NOT_FOUND, ERR_NOT_LOADED, ERR_WRONG_TYPE, ERR_RING_OPEN
   */
  ring(name: string): RingReader {
    const index = this.#mapIndex(name);
    return new RingReader(
      this.#native,
      index,
      runWithBpfErrors(() => this.#native.ringOpen(index)),
    );
  }

  /**
   * Creates the rings of a BPF_MAP_TYPE_ARRAY_OF_MAPS whose inner maps are ring buffers, as entries 0 to `count` - 1,
   * and maps their memory; must be called once, after load(). Until then, a program finds no ring there.
   * @param sizeBytes Size of each ring, a power-of-two number of pages
   * @throws ERR_NOT_FOUND, ERR_NOT_LOADED, ERR_WRONG_TYPE, ERR_RING_OPEN; ERR_OUT_OF_RANGE: the array has no room for
   * `count` rings; BpfError EINVAL: the size, or the array is not for ring buffers; ENOMEM
   */
  rings(name: string, count: number, sizeBytes: number): RingReader[] {
    const index = this.#mapIndex(name);
    const first = runWithBpfErrors(() => this.#native.ringsCreate(index, count, sizeBytes));
    return Array.from({ length: count }, (_, i) => new RingReader(this.#native, first + i, sizeBytes));
  }

  /** Runs a program once with BPF_PROG_TEST_RUN, on this thread, and waits for it. Must be called after load(). */
  testRun(program: string, options: TestRunOptions = {}): TestRunResult {
    const { dataIn, dataOut, ctxIn, repeat = 0 } = options;
    const [returnValue, durationNs, dataOutBytes] = runWithBpfErrors(() =>
      this.#native.testRun(program, dataIn, dataOut, ctxIn, repeat),
    );
    return { returnValue, durationNs, dataOutBytes };
  }

  /**
   * Runs a `SEC("iter/...")` program over all objects that it iterates over. Returns what the program writes to its seq
   * file (at most 256 MiB). Iterators over a map, such as `SEC("iter/bpf_map_elem")`, are not supported.
   * @throws ERR_NOT_FOUND, ERR_NOT_LOADED, ERR_WRONG_TYPE: it is no iterator; BpfError EINVAL: an iterator over a map
   */
  iterate(program: string): Uint8Array {
    return runWithBpfErrors(() => this.#native.iterate(program));
  }

  /** Returns the statistics of the loaded programs. */
  programStats(): readonly ProgramStats[] {
    return runWithBpfErrors(() => this.#native.programStats());
  }

  /**
   * Makes the kernel count and time the runs of all its BPF programs (some 20 ns each), until the statistics are
   * switched off or the object is closed.
   * @throws BpfError EPERM without CAP_SYS_ADMIN
   */
  setRunStats(on: boolean): void {
    runWithBpfErrors(() => this.#native.setRunStats(on));
  }

  /** Detaches the programs, unmaps the rings and unloads the object. Further calls have no effect. */
  close(): void {
    this.#native.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #mapIndex(name: string): number {
    const index = this.#native.maps().findIndex((map) => map.name === name);
    if (index < 0) throw createMisuseError(Error, 'ERR_NOT_FOUND', `No map '${name}' in this object`);
    return index;
  }
}
