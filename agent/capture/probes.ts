/** Loads and attaches the BPF object, or explains in one clear line why that is impossible. */
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { totalmem } from 'node:os';
import { BpfError, type BpfMap, BpfObject, btfTypeExists, possibleCpus, type RingReader } from 'libbpf-ts';
import { readClocks } from 'libbpf-ts/kernel';
import { CGROUP_HIERARCHIES, type CgroupHierarchy } from '../attribution/cgroups.ts';
import type { RequestReading } from '../attribution/http_processes.ts';
import type { ThreadLocal } from '../attribution/otel/thread_local.ts';
import type { RunningProgram } from '../attribution/proc_program.ts';
import { START_ROUNDING_NS } from '../attribution/start_time.ts';
import { createKernelFilter, type KernelFilter } from '../filter/kernel_filter.ts';
import type { FilterSettings } from '../filter/settings.ts';
import { AgentError, UnfitHostError } from '../process/errors.ts';
import { checkAddon } from './addon.ts';
import { orderToAttach } from './attach_order.ts';
import { CAPTURE_CAPABILITIES, findMissingCapabilities } from './capabilities.ts';
import { createEventRings, type EventRings, groupCpus, planRings } from './event_rings.ts';
import { applyLayers, type LayerName, type LayerState, listLayerStates } from './layers.ts';
import { findMissingFeatures, findWrongTracepoints } from './requirements.ts';
import { createShedSumReader, type ShedSum } from './shed_sums.ts';

export const BTF = '/sys/kernel/btf/vmlinux';

export interface Probes {
  readonly events: EventRings;
  readonly definitions: RingReader;
  readonly fileDefinitions: RingReader;
  readonly losses: BpfMap;
  /** Takes the calls that were left out while a ring filled up, by owner. */
  takeShedSums(): ShedSum[];
  /** Losses counted by process. */
  readonly processLosses: BpfMap;
  /** Bios that wait for their request to be issued: `bio_owners` of bpf/bio_owner.bpf.h. */
  readonly waitingBios: BpfMap;
  /** Removes a bio from `waitingBios`; returns whether it was still there. */
  forgetBio(key: Uint8Array): boolean;
  readonly filter: KernelFilter;
  /** Makes the kernel side read the records of a process's threads; undefined if the `otel` layer is off. */
  readonly watchThreads: WatchThreads | undefined;
  /** Makes the kernel side read a process's HTTP requests; undefined if the `http` layer is off. */
  readonly watchRequests: RequestReading | undefined;
  /** Number of bytes that wait in all rings. */
  pendingBytes(): number;
  /**
   * Sleeps until a program wakes the agent, `timeoutMs` have passed or `signal` aborts. A program wakes the agent with
   * its first record if the rings are empty; otherwise when a ring fills up. Returns whether a ring fills up.
   */
  sleep(options: { timeoutMs: number; signal: AbortSignal }): Promise<boolean>;
  /** A time (CLOCK_BOOTTIME) before the first program was attached: until then, nothing was recorded or lost. */
  readonly attachedFromNs: number;
  /** Names of the attached programs. */
  readonly attached: readonly string[];
  readonly layers: readonly LayerState[];
  /** Lists the calls, bios and requests that have begun and not ended; works after `detach` as well. */
  readInProgress(): FramesInProgress;
  /**
   * Number of program runs that the kernel skipped because the same program was already running on that CPU, over all
   * programs.
   */
  recursionMisses(): bigint;
  /** Stops capturing events; the rings remain readable. */
  detach(): void;
  close(): void;
}

/** Frames with the records of events that have not ended yet: bpf/in_progress.bpf.h. */
export interface FramesInProgress {
  calls: Uint8Array;
  /**
   * Bios that wait for a device. They are read before `requests`, so that a bio that becomes a request is not missed.
   */
  bios: Uint8Array;
  /** Requests that have been issued to a device. */
  requests: Uint8Array;
}

const NONE = new Uint8Array();

export const EVENT_BYTES_DEFAULT = 16 << 20;

export interface ProbesOptions {
  /** Process id of the agent itself, which is never recorded. */
  agentPid: number;
  /** Hierarchy whose cgroups are reported for processes. */
  cgroupHierarchy: CgroupHierarchy;
  /** Attribution layers to disable. */
  without?: readonly LayerName[] | undefined;
  /** The filter to start with; without one, everything is recorded. */
  settings?: FilterSettings;
  /** Size of all event rings together in bytes, a power of two; by default EVENT_BYTES_DEFAULT. */
  eventBytes?: number | undefined;
  /** Number of event rings; by default one for each group of CPUs that share a cache. */
  ringCount?: number | undefined;
  /** Capacity of the map of waiting bios, and of the map of issued requests. */
  requestsInFlightMax?: number | undefined;
}

/**
 * Maximum number of attempts to load. The verifier gives up when a signal arrives, and libbpf itself retries only five
 * times.
 */
const LOAD_ATTEMPTS = 5;

export function openProbes(options: ProbesOptions): Probes {
  checkHost();
  return retryLoading(() => {
    checkTracepoints();
    return loadProbes(options);
  });
}

function retryLoading<Result>(load: () => Result): Result {
  for (let attempt = 1; ; attempt++) {
    try {
      return load();
    } catch (error) {
      const interrupted = error instanceof BpfError && error.code === 'EAGAIN';
      if (!interrupted || attempt === LOAD_ATTEMPTS) throw explainLoadError(error);
    }
  }
}

function loadProbes({ agentPid, cgroupHierarchy, without = [], settings, ...sizes }: ProbesOptions): Probes {
  const object = BpfObject.open(findBpfObjectPath());
  try {
    object.setReadOnly('agent_tgid', agentPid);
    object.setReadOnly('cgroup_hierarchy', CGROUP_HIERARCHIES.indexOf(cgroupHierarchy));
    object.setReadOnly('label_seed', randomBytes(8).readBigUInt64LE());
    const layers = listLayerStates(without, cgroupHierarchy);
    applyLayers(object, layers);
    const { eventBytes = EVENT_BYTES_DEFAULT, ringCount, requestsInFlightMax } = sizes;
    const plan = planRings(groupCpus(), eventBytes, ringCount);
    object.setReadOnly('ring_of_cpu', plan.ringOfCpu);
    enlargeLruMaps(object);
    for (const map of requestsInFlightMax === undefined ? [] : ['bio_owners', 'request_states']) {
      object.setMaxEntries(map, requestsInFlightMax!);
    }
    object.setMaxEntries('dirty_pages', computeDirtyPagesMax());
    object.load();
    const isOn = (layer: LayerName) => layers.some(({ name, on }) => name === layer && on);
    const filter = createKernelFilter({
      settings: object.map('filter_settings'),
      pids: object.map('filter_pids'),
      comms: object.map('filter_comms'),
      processes: object.map('filter_processes'),
    });
    if (settings) filter.apply(settings);
    const clocks = new BigInt64Array(4);
    readClocks(clocks);
    const events = createEventRings(object.rings('events', plan.count, plan.ringBytes));
    const attached = attachAll(object);
    const definitions = object.ring('definitions');
    const fileDefinitions = object.ring('file_definitions');
    const pendingBytes = () => events.pendingBytes() + definitions.pendingBytes() + fileDefinitions.pendingBytes();
    const list = createMapLister(object);
    const requestsKnown = object.map('requests_known');
    const waitingBios = object.map('bio_owners');
    /** Number of bios that `forgetBio` deleted, which the programs still count in `requests_known`. */
    let forgottenBios = 0n;
    return {
      attachedFromNs: Number(clocks[1]),
      attached,
      layers,
      events,
      definitions,
      fileDefinitions,
      pendingBytes,
      sleep: createSleeper(object, pendingBytes),
      losses: object.map('losses'),
      takeShedSums: createShedSumReader(object.map('shed_sums'), [
        object.map('shed_sums_0'),
        object.map('shed_sums_1'),
      ]),
      processLosses: object.map('process_losses'),
      waitingBios,
      forgetBio(key) {
        const isForgotten = waitingBios.delete(key);
        if (isForgotten) forgottenBios++;
        return isForgotten;
      },
      filter,
      watchThreads: isOn('otel')
        ? createThreadWatcher(object.map('otel_processes'), object.map('otel_in_use'))
        : undefined,
      watchRequests: isOn('http') ? createRequestReading(object.map('http_processes')) : undefined,
      readInProgress() {
        const calls = object.iterate('calls_in_progress');
        const [known] = new BigUint64Array(requestsKnown.get(new Uint8Array(4))!.slice().buffer);
        if (known === forgottenBios) return { calls, bios: NONE, requests: NONE };
        const bios = list('bios_in_progress');
        return { calls, bios, requests: list('requests_in_progress') };
      },
      recursionMisses: () => object.programStats().reduce((sum, { recursionMisses }) => sum + recursionMisses, 0n),
      detach: () => object.detach(),
      close: () => object.close(),
    };
  } catch (error) {
    object.close();
    throw error;
  }
}

/**
 * Attaches all loaded programs; throws if one cannot be attached. Without that program, the recording would be wrong,
 * or would lack events that are not counted as lost.
 */
function attachAll(object: BpfObject): string[] {
  const programs = object.programs.filter(({ section, autoload }) => autoload && !isRun(section));
  return orderToAttach(programs.map(({ name }) => name)).flatMap((name) => object.attach(name));
}

/** Whether the agent runs the programs of this section instead of attaching them. */
export function isRun(section: string): boolean {
  return section.startsWith('iter/') || section === 'syscall';
}

/**
 * Maximum number of classes that the elements of a map are divided into. A class of the largest map then has only a few
 * elements; the ring has room for a thousand.
 */
const CLASSES_MAX = 1 << 16;

/**
 * Returns a function that runs a BPF program which lists the elements of a map, and returns their frames. If the ring
 * has no room for all elements, they are listed class by class. The class of an element does not depend on other
 * elements, which may be added and removed meanwhile.
 */
function createMapLister(object: BpfObject): (program: string) => Uint8Array {
  const ring = object.ring('listed');
  const frames = new Uint8Array(ring.sizeBytes);

  /** Lists the elements of one class; returns undefined if the ring had no room for all of them. */
  function listClass(program: string, classes: number, at: number): Uint8Array | undefined {
    const wanted = new Uint8Array(Uint32Array.of(classes, at).buffer);
    const { returnValue: missed } = object.testRun(program, { ctxIn: wanted });
    const length = ring.drain(frames);
    return missed === 0 ? frames.slice(0, length) : undefined;
  }

  function listClasses(program: string, classes: number): Uint8Array[] | undefined {
    const listed: Uint8Array[] = [];
    for (let at = 0; at < classes; at++) {
      const some = listClass(program, classes, at);
      if (!some) return undefined;
      listed.push(some);
    }
    return listed;
  }

  return (program) => {
    for (let classes = 1; classes <= CLASSES_MAX; classes *= 4) {
      const listed = listClasses(program, classes);
      if (listed) return listed.length === 1 ? listed[0]! : Buffer.concat(listed);
    }
    throw new AgentError(`the BPF program ${program} has no room for what it lists: report it`);
  };
}

/** BPF_MAP_TYPE_LRU_HASH: include/uapi/linux/bpf.h. */
const LRU_HASH = 9;
/**
 * Minimum number of entries of an LRU map for each CPU. Each CPU keeps up to 128 free entries for itself, so a smaller
 * map drops entries while it still has room: LOCAL_FREE_TARGET, kernel/bpf/bpf_lru_list.c.
 */
const LRU_ENTRIES_PER_CPU = 512;

function enlargeLruMaps(object: BpfObject): void {
  const entriesMin = possibleCpus() * LRU_ENTRIES_PER_CPU;
  for (const { name, type, maxEntries } of object.maps)
    if (type === LRU_HASH && maxEntries < entriesMin) object.setMaxEntries(name, entriesMin);
}

/* AGENT_* of bpf/kreplay.bpf.h. */
const AWAKE = 0;
const WANTS_FIRST_RECORD = 1;
const WANTS_FULL_RING = 2;

/** Creates the function `sleep` of the probes. */
function createSleeper(object: BpfObject, pendingBytes: () => number): Probes['sleep'] {
  const wakeups = object.ring('wakeups');
  const state = object.map('.data.agent_sleep');
  const key = new Uint8Array(4);
  const nothing = new Uint8Array(0);
  const values = [AWAKE, WANTS_FIRST_RECORD, WANTS_FULL_RING].map(
    (value) => new Uint8Array(BigUint64Array.of(BigInt(value)).buffer),
  );
  const setState = (value: number) => state.set(key, values[value]!);

  return async (options) => {
    const wanted = pendingBytes() === 0 ? WANTS_FIRST_RECORD : WANTS_FULL_RING;
    setState(wanted);
    // A record that came before the state was set has woken nobody.
    const isWoken = (wanted === WANTS_FULL_RING || pendingBytes() === 0) && (await wakeups.waitForRecords(options));
    setState(AWAKE);
    wakeups.drain(nothing);
    return isWoken && wanted === WANTS_FULL_RING;
  };
}

const PAGE_BYTES = 4096;
/** Minimum capacity of the map of dirty pages: 512 MiB. The maps then take some 18 MB. */
const DIRTY_PAGES_MIN = 1 << 17;
/** Maximum capacity of the map of dirty pages: 4 GiB. The maps then take some 145 MB. */
const DIRTY_PAGES_MAX = 1 << 20;
/**
 * Divisor of the memory: between these bounds, the map has room for a twentieth of the pages. The kernel begins to
 * write back only when a tenth of the available memory is dirty (vm.dirty_background_ratio). On a host with that many
 * dirty pages, the pages with the oldest writes lose their owners.
 */
const DIRTY_SHARE = 20;

/** Returns the capacity of the map of dirty pages. Each page that waits for write-back has an entry with its owner. */
function computeDirtyPagesMax(): number {
  const pages = Math.floor(totalmem() / PAGE_BYTES / DIRTY_SHARE);
  return Math.min(DIRTY_PAGES_MAX, Math.max(DIRTY_PAGES_MIN, pages));
}

/** Creates functions that add and remove entries (struct http_process) of `map`: bpf/http_process.bpf.h. */
export function createRequestReading(map: BpfMap): RequestReading {
  const encodeKey = (pid: number) => new Uint8Array(Uint32Array.of(pid).buffer);
  return {
    watch(pid, startedByNs, execId) {
      const value = new DataView(new ArrayBuffer(16));
      value.setBigUint64(0, BigInt(startedByNs), true);
      value.setUint32(8, execId ?? 0, true);
      value.setUint32(12, execId === undefined ? 1 : 0, true);
      map.set(encodeKey(pid), new Uint8Array(value.buffer));
    },
    unwatch: (pid) => map.delete(encodeKey(pid)),
  };
}

type WatchThreads = (program: RunningProgram, place: ThreadLocal) => void;

/** Creates a function that adds entries (struct otel_process) to `map`, by thread group: bpf/otel.bpf.h. */
function createThreadWatcher(map: BpfMap, inUse: BpfMap): WatchThreads {
  return ({ pid, startNs, execId }, place) => {
    const moduleId = place.mode === 'static' ? 0 : place.moduleId;
    const startedByNs = BigInt(startNs) + BigInt(START_ROUNDING_NS);
    const value = BigInt64Array.of(startedByNs, BigInt(place.offset), BigInt(moduleId), BigInt(execId));
    map.set(new Uint8Array(Uint32Array.of(pid).buffer), new Uint8Array(value.buffer));
    inUse.set(new Uint8Array(Uint32Array.of(0).buffer), new Uint8Array(Uint32Array.of(1).buffer));
  };
}

/** Returns the path of the BPF object for this kernel. The imports in package.json map its name to a file. */
function findBpfObjectPath(): string {
  const variant = btfTypeExists('bpf_rdonly_cast') ? 'kreplay_cast' : 'kreplay';
  try {
    return createRequire(import.meta.url).resolve(`#bpf/${variant}`);
  } catch {
    throw new AgentError(`the compiled BPF programs (build/bpf/${variant}.bpf.o) are missing; run \`make build\``);
  }
}

/** Link of the host's pid namespace: PROC_PID_INIT_INO in include/linux/proc_ns.h. */
export const ROOT_PID_NAMESPACE = 'pid:[4026531836]';

/**
 * Returns the clocks (`boottime`, `monotonic`) that a time namespace shifts. Events are stamped with the kernel's own
 * clocks, which are not shifted.
 */
export function readShiftedClocks(): string[] {
  const offsets = '/proc/self/timens_offsets';
  // A kernel without time namespaces has no such file.
  const lines = existsSync(offsets) ? readFileSync(offsets, 'utf8').trim().split('\n') : [];
  return lines.map((line) => line.split(/\s+/)).flatMap(([clock, ...offset]) => (offset.some(Number) ? [clock!] : []));
}

function checkHost(): void {
  checkAddon();
  const clocks = readShiftedClocks();
  if (clocks.length > 0) {
    throw new UnfitHostError(
      `the agent is in a time namespace whose clocks (${clocks.join(', ')}) are not the host's, so run it outside (without unshare --time)`,
    );
  }
  if (readlinkSync('/proc/self/ns/pid') !== ROOT_PID_NAMESPACE) {
    throw new UnfitHostError(
      "the agent is in a pid namespace of its own, so run it in the host's (docker run --pid=host)",
    );
  }
  if (!existsSync(BTF)) {
    throw new UnfitHostError(
      `${BTF} is missing: this kernel has no BTF, so boot one built with CONFIG_DEBUG_INFO_BTF=y`,
    );
  }
}

function checkTracepoints(): void {
  const wrong = findWrongTracepoints();
  if (wrong.length > 0) throw createUnfitError([...findMissingFeatures().map((name) => `no ${name}`), ...wrong]);
}

function createUnfitError(problems: readonly string[]): UnfitHostError {
  return new UnfitHostError(`this kernel cannot be recorded, it has ${problems.join(', ')}: boot Linux 5.15 or later`);
}

/**
 * Messages for exhausted resources, which do not mean that the kernel is unsuitable: which resource ran out, and what
 * to do.
 */
const SHORTAGES: Readonly<Record<string, string>> = {
  EMFILE: 'this process may not open more files; raise its limit (ulimit -n, LimitNOFILE= of the unit) to 256 or more',
  ENFILE: 'the host has no more open files to give; raise the sysctl fs.file-max',
  ENOMEM: 'there is not enough memory; give a smaller --ring-size',
};

/** Codes of temporary errors: the next start may succeed. */
const PASSING = new Set(['EAGAIN', 'EBUSY', 'EINTR', 'ENOSPC']);

function explainLoadError(error: unknown): unknown {
  if (!(error instanceof BpfError)) return error;
  const program = error.program ? ` (program ${error.program})` : '';
  // The verifier also fails with EACCES, but then it provides a log.
  if (error.code === 'EPERM' || (error.code === 'EACCES' && !error.verifierLog)) {
    return new UnfitHostError(
      `the kernel refused to load the BPF programs${program} (${error.code}): ${describeRefusal()}`,
    );
  }
  const shortage = SHORTAGES[error.code];
  if (shortage) return new AgentError(`the BPF programs cannot be loaded${program}: ${shortage} (${error.code})`);
  const missing = findMissingFeatures().map((name) => `no ${name}`);
  if (missing.length > 0) return createUnfitError(missing);
  const log = error.verifierLog ? `\n${error.verifierLog}` : '';
  const problem = `the BPF programs do not load on this kernel${program}: ${error.message}`;
  return PASSING.has(error.code) ? new AgentError(`${problem}${log}`) : new UnfitHostError(problem, log);
}

function describeRefusal(): string {
  const missing = findMissingCapabilities(CAPTURE_CAPABILITIES);
  if (missing.length > 0) {
    return `${missing.join(' and ')} missing: run as root, or with ${CAPTURE_CAPABILITIES.join(' and ')}`;
  }
  return 'the capabilities are there, so it is a security module, lockdown or a container';
}
