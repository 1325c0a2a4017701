import { loadAddon, type MapInfo, type NativeObject, type ProgramInfo, type ProgramStats } from './addon.ts';
import { createMisuseError, runWithBpfErrors } from './errors.ts';
import { BpfMap } from './map.ts';
import { RingReader } from './ring.ts';
import { encodeVariable, type VariableValue } from './variable.ts';

export interface OpenOptions {
  /** Name of the object, which prefixes the names of its global-data maps. Default: from the file name. */
  name?: string;
  /** Level of the verifier's log: 1 instructions, 2 also states, 4 only statistics. Default: 1, on failure only. */
  logLevel?: number;
}

export interface VariableInfo {
  readonly name: string;
  /** bytes */
  readonly size: number;
  /** The type that setReadOnly() accepts besides a Uint8Array of `size` bytes; 'bytes' means none. */
  readonly kind: 'unsigned' | 'signed' | 'boolean' | 'bytes';
}

export interface TestRunOptions {
  /** The packet, for program types that take one. */
  dataIn?: Uint8Array;
  /** The buffer for the packet after the run. */
  dataOut?: Uint8Array;
  /** The context. A `SEC("syscall")` program writes its changes back into this. */
  ctxIn?: Uint8Array;
  /** The number of runs; only for types that take a packet. */
  repeat?: number;
}

export interface TestRunResult {
  /** u32 */
  readonly returnValue: number;
  /** Mean of the runs, where the kernel measures it; otherwise 0. */
  readonly durationNs: number;
  /** Bytes of the packet after the run; more than the length of `dataOut` if that was too small. */
  readonly dataOutBytes: number;
}

/**
 * A BPF object file: open it, set it up, load() it, attach() it, close() it.
 *
 * close() releases all its kernel resources; this also happens when the worker or the process ends, and when the object
 * is garbage-collected. After that, maps and rings taken from it throw ERR_CLOSED.
 */
export class BpfObject {
  readonly #native: NativeObject;

  private constructor(native: NativeObject) {
    this.#native = native;
  }

  /**
   * Reads an ELF file, or the bytes of one. It requires no privileges and changes nothing in the kernel.
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
   * Sets a `const volatile` global, before load(): the verifier then sees a constant, and removes the branches that it
   * makes unreachable.
   * @throws ERR_NOT_FOUND; ERR_OUT_OF_RANGE: the value does not fit the variable's size and sign
   */
  setReadOnly(variable: string, value: VariableValue): void {
    const info = this.#native.variables().find((each) => each.name === variable);
    if (info === undefined) {
      throw createMisuseError(Error, 'ERR_NOT_FOUND', `No read-only variable '${variable}' in this object`);
    }
    this.#native.setVariable(variable, encodeVariable(info, value));
  }

  /** Sets whether load() loads this program; before load(). */
  setAutoload(program: string, on: boolean): void {
    runWithBpfErrors(() => this.#native.setAutoload(program, on));
  }

  /** Sets whether load() creates this map; before load(). */
  setAutocreate(map: string, on: boolean): void {
    runWithBpfErrors(() => this.#native.setAutocreate(map, on));
  }

  /**
   * Sets the size of a map; before load(). A ring buffer's is in bytes; libbpf rounds it up to a power of two pages.
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
   * Attaches one program, or all that are loaded and whose section name specifies the target (except iterators). It
   * returns the names of those that were not attached before. If one of all fails, the call detaches those it attached.
   * @throws BpfError with `program`
   */
  attach(program?: string): string[] {
    if (program === undefined) return runWithBpfErrors(() => this.#native.attachAll());
    return runWithBpfErrors(() => this.#native.attach(program)) ? [program] : [];
  }

  /** Detaches one program or all; it ignores those that are not attached. */
  detach(program?: string): void {
    if (program === undefined) this.#native.detachAll();
    else this.#native.detach(program);
  }

  /** Returns a map by name; after load(). @throws ERR_NOT_FOUND, ERR_NOT_LOADED */
  map(name: string): BpfMap {
    const index = this.#mapIndex(name);
    return new BpfMap(this.#native, index);
  }

  /**
   * Maps a ring buffer's memory; after load(). One reader per ring at a time.
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

  /** Runs a program once with BPF_PROG_TEST_RUN, on this thread, and waits for it. After load(). */
  testRun(program: string, options: TestRunOptions = {}): TestRunResult {
    const { dataIn, dataOut, ctxIn, repeat = 0 } = options;
    const [returnValue, durationNs, dataOutBytes] = runWithBpfErrors(() =>
      this.#native.testRun(program, dataIn, dataOut, ctxIn, repeat),
    );
    return { returnValue, durationNs, dataOutBytes };
  }

  /**
   * Runs a `SEC("iter/...")` program over all its objects; returns its output to the seq file (at most 256 MiB).
   * The function takes no iterator over a map, such as `SEC("iter/bpf_map_elem")`.
   * @throws ERR_NOT_FOUND, ERR_NOT_LOADED, ERR_WRONG_TYPE: it is no iterator; BpfError EINVAL: an iterator over a map
   */
  iterate(program: string): Uint8Array {
    return runWithBpfErrors(() => this.#native.iterate(program));
  }

  /** Statistics of the loaded programs. */
  programStats(): readonly ProgramStats[] {
    return runWithBpfErrors(() => this.#native.programStats());
  }

  /**
   * Makes the kernel count and time the runs of all its BPF programs (some 20 ns each), until switched off or closed.
   * @throws BpfError EPERM without CAP_SYS_ADMIN
   */
  setRunStats(on: boolean): void {
    runWithBpfErrors(() => this.#native.setRunStats(on));
  }

  /** Detaches, unmaps and unloads. Further calls have no effect. */
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
