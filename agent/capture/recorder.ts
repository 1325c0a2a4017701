/**
 * One pass of the recorder: ring -> columns -> owners -> recording.
 *
 * The event rings are drained before the definition rings: a BPF program submits a definition before the first event
 * that refers to it, so every reference of the drained events can be resolved.
 */
import type { BpfMap } from 'libbpf-ts';
import { createDecoder } from '../../bpf/schema/decoder.ts';
import { contextDefinition, contextEnd, fileDefinition } from '../../bpf/schema/definitions.ts';
import { EVENTS, type EventType } from '../../bpf/schema/index.ts';
import {
  KERNEL_LOSS_CAUSES,
  KERNEL_LOSS_WORDS,
  LOSS_CAUSES_MAX,
  LOSS_TYPES_MAX,
  type LossCause,
} from '../../bpf/schema/losses.ts';
import { type CgroupSource, createCgroups } from '../attribution/cgroups.ts';
import { createContexts } from '../attribution/contexts.ts';
import { createFiles } from '../attribution/files.ts';
import type { ReferenceTables } from '../attribution/fill.ts';
import { createHttpProcesses } from '../attribution/http_processes.ts';
import type { LostByService } from '../attribution/lost_services.ts';
import { readProcessProgram } from '../attribution/proc_program.ts';
import { createProcesses, type Processes, type ProcessesOptions } from '../attribution/processes.ts';
import { createPrograms } from '../attribution/programs.ts';
import { createPublishers } from '../attribution/publishers.ts';
import { createResolver } from '../attribution/resolve.ts';
import type { ServiceRule } from '../attribution/service_name/rules.ts';
import { findCgroupService } from '../attribution/service_name/service_name.ts';
import {
  asksForProcesses,
  type DataOwner,
  type FilteredProcess,
  listsProcess,
  wantsDataOwner,
  wantsProcess,
  wantsService,
} from '../filter/process_filter.ts';
import type { FilterSettings } from '../filter/settings.ts';
import type { LossReason } from '../recording/format/losses.ts';
import type { WriterThread } from '../recording/write/writer_thread.ts';
import { createDefinitionStream } from './definition_stream.ts';
import { createInProgress, type InProgress, WAIT_MAX_NS } from './in_progress.ts';
import type { Probes } from './probes.ts';
import { createProcessLosses, type ProcessLosses } from './process_losses.ts';
import { createShedOwners, type ShedCalls } from './shed_sums.ts';
import type { WallClock } from './wall_clock.ts';

/**
 * Size of the buffer for drained events, enough for about 10,000. A pass copies at most this much before it reads the
 * definitions. The buffer fits the processor's caches, and a pass takes some milliseconds.
 */
const BUFFER_BYTES = 1 << 20;
/** Maximum number of events that the buffer can hold. */
const BUFFER_ROWS_MAX = Math.floor(BUFFER_BYTES / Math.min(...EVENTS.map(({ sizeMin }) => sizeMin)));

export interface Recorder {
  /**
   * Moves the contents of the rings into the recording's open part. Returns the number of bytes taken out of the event
   * rings; undefined while the writer has no room. Meanwhile, the rings keep events, and the kernel side counts events
   * that do not fit.
   */
  drain(): number | undefined;
  /**
   * Finds the calls and requests in progress; must be called before `drain`. Returns the result of `takeSnapshot` of
   * `InProgress`.
   */
  findInProgress(): ReturnType<InProgress['takeSnapshot']>;
  /**
   * Passes the calls and requests still in progress to the writer, before a flush. `isDrained`: whether everything that
   * the rings held at the last snapshot has been drained.
   */
  settleInProgress(isDrained: boolean): void;
  /**
   * Checks a few of the processes that may publish OpenTelemetry's contexts, if any are due. Not part of `drain`,
   * because `drain` is called too rarely while nothing is recorded. Returns when the next check is due.
   */
  checkPublishers(nowMs: number): number;
  /**
   * Passes the calls that the kernel side left out to the writer, if there are any. They include each left-out call
   * that began before the snapshot of the last `findInProgress` and is not in progress.
   */
  recordShed(): void;
  /** Sets which events are recorded from now on. */
  setFilter(settings: FilterSettings): void;
  /** Number of events recorded since the start. */
  readonly eventCount: number;
  /** Number of events and definitions lost since the start. */
  readonly lossCount: number;
  /** Number of malformed fields of marker lines since the start. */
  readonly badMarkerFieldCount: number;
}

export interface RecorderOptions {
  probes: Probes;
  writer: Omit<WriterThread, 'flush' | 'isOverwritten' | 'close'>;
  clock: WallClock;
  cgroups: CgroupSource;
  serviceRules?: readonly ServiceRule[] | undefined;
  /** Services whose HTTP requests are read. */
  httpServices?: readonly string[] | undefined;
  isOwnProcess: ProcessesOptions['isOwn'];
  trustsService(uid: number): boolean;
}

export function createRecorder(options: RecorderOptions): Recorder {
  const { probes, writer, clock } = options;
  const wanted: RecordingFilter = { ...EVERYTHING };
  const { publishers, contexts, processes, programs, files, cgroups, tables } = createTables(options, wanted);
  const definitions = createDefinitionStream([probes.definitions, probes.fileDefinitions], {
    contexts,
    processes,
    programs,
    files,
    cgroups,
  });
  const decoder = createDecoder();
  const resolver = createResolver(decoder.decoded, tables);
  const kernelLosses = createLossCounters(probes.losses);
  const processLosses = createProcessLosses(probes.processLosses, processes, options.trustsService);
  const buffer = new Uint8Array(BUFFER_BYTES);
  const words = new Uint32Array(buffer.buffer);
  const isKept = (record: Uint32Array, offset: number) =>
    !resolver.isOwn(record, offset) && (!wanted.asks || resolver.isWanted(record, offset, wanted.service));
  const inProgress = createInProgress({
    read: probes.readInProgress,
    createBlockResolver: (decoded) => createResolver(decoded, { ...tables, contexts: contexts.uncounted }),
    accept: isKept,
    isOwn: resolver.isOwn,
    forgetBios: loseBios,
    toWallNs: clock.toWallNs,
    pass: writer.setInProgress,
  });
  const shed = createShedOwners({
    contexts,
    processes,
    isWanted: (process, labelled) => !wanted.asks || (labelled ? wanted.service(labelled) : process.isWanted),
  });
  let recursionMisses = 0n;
  let drainedBootNs = probes.attachedFromNs;
  let eventCount = 0;
  let lossCount = 0;
  let nextRoomBootNs = 0;

  function loseBios(beforeNs: number): void {
    for (const queuedNs of forgetBios(probes, beforeNs)) {
      lossCount++;
      const atNs = clock.toWallNs(queuedNs);
      writer.recordLoss({ cause: 'end_missed', eventType: 'block_io', count: 1, fromNs: atNs, toNs: atNs });
    }
  }

  /**
   * Removes old bios when their map is full. Bios that the filter leaves out are in no snapshot, but also fill the map.
   */
  function makeRoomForBios(losses: readonly LossCount[]): void {
    const isFull = losses.some(({ cause, eventType }) => cause === 'no_memory' && eventType === 'block_io');
    if (!isFull || drainedBootNs < nextRoomBootNs) return;
    nextRoomBootNs = drainedBootNs + ROOM_EVERY_NS;
    loseBios(drainedBootNs - WAIT_MAX_NS);
  }

  /**
   * Returns the new losses of the kernel side and their time range. Must run before owners are resolved, because a
   * context whose end was lost must no longer be used.
   *
   * The range begins when the previous call read the clock and ends when this call last reads it: the agent can be
   * delayed between any two steps. The times are from the boot clock, which cannot be set and which also gives recorded
   * events their wall-clock time (test/kernel/loss_times.root.test.ts).
   */
  function takeKernelLosses() {
    const from = drainedBootNs;
    drainedBootNs = clock.bootNs();
    const { losses: all, contextEndsLost } = kernelLosses.take();
    const losses = all.filter(({ cause }) => cause !== 'shed');
    for (const { cause, eventType, count } of all) if (cause === 'shed') shed.count(eventType, count, from);
    const missed = probes.recursionMisses();
    const busy = Number(missed - recursionMisses);
    recursionMisses = missed;
    if (contextEndsLost) contexts.endAll(from);
    const { counts: shared, areAnyones } = shareOutLosses(losses, processLosses);
    if (areAnyones) contexts.noteLostMarker();
    const counts = [...shared, ...buildUntypedLosses([['program_busy', busy]])];
    makeRoomForBios(losses);
    return { counts, fromNs: clock.toWallNs(from), toNs: clock.toWallNs(clock.bootNs()) };
  }

  function recordShed(): void {
    if (!shed.hasCounted()) return;
    const sums = probes.takeShedSums();
    definitions.drain();
    const toLoss = ({ eventType, count, sums: ofCalls, fromNs, toNs }: ShedCalls) => {
      const period = { fromNs: clock.toWallNs(fromNs), toNs: clock.toWallNs(toNs) };
      return { cause: 'shed' as const, eventType, count, sums: ofCalls, ...period };
    };
    for (const { service, parts, ...calls } of shed.take(sums, clock.bootNs())) {
      lossCount += calls.count;
      const divided = parts && [...parts].map(([id, part]) => ({ ...toLoss(part), service, transactionId: id }));
      writer.recordLoss({ ...toLoss(calls), service }, divided);
    }
  }

  function takeOwnLosses(): LossCount[] {
    return [
      ...buildUntypedLosses([
        ['bad_record', decoder.takeBadRecords()],
        ['definition_lost', definitions.takeBadRecords()],
      ]),
      ...buildServiceLosses('definition_lost', contexts.takeLost()),
    ];
  }

  return {
    drain() {
      if (writer.freeRows() < BUFFER_ROWS_MAX) {
        // Drains the definitions even now: full definition rings would slow down traced programs, and definitions
        // would be lost.
        definitions.drain();
        return undefined;
      }
      const change = clock.measure();
      if (change) writer.recordClock(change);
      const filled = probes.events.drain(buffer);
      definitions.drain();
      const { counts, fromNs, toNs } = takeKernelLosses();
      for (let at = 0; at < filled; ) {
        at = decoder.decode(buffer, at, filled, isKept);
        inProgress.forgetEnded(words, decoder.decoded);
        resolver.resolve(words);
        eventCount += decoder.decoded.block.rowCount;
        writer.append(decoder.decoded.block);
      }
      for (const loss of [...counts, ...takeOwnLosses()]) {
        lossCount += loss.count;
        writer.recordLoss({ ...loss, fromNs, toNs });
      }
      return filled;
    },
    findInProgress: () => inProgress.takeSnapshot(clock.bootNs(), wanted.minDurationNs),
    settleInProgress: inProgress.settle,
    recordShed,
    checkPublishers: (nowMs) => publishers?.checkDue(nowMs) ?? Number.POSITIVE_INFINITY,
    setFilter(settings) {
      wanted.asks = asksForProcesses(settings);
      wanted.minDurationNs = Number(settings.minDurationNs);
      wanted.service = (service) => wantsService(settings, service);
      wanted.process = (process) => wantsProcess(settings, process);
      wanted.lists = (pid, executable) => listsProcess(settings, pid, executable);
      wanted.dataOwner = (owner, label) => wantsDataOwner(settings, owner, label);
      probes.filter.apply(settings);
      processes.reconsider();
    },
    get eventCount() {
      return eventCount;
    },
    get lossCount() {
      return lossCount;
    },
    get badMarkerFieldCount() {
      return contexts.badFieldCount;
    },
  };
}

/** Returns the counts above 0 as losses whose event type is unknown. */
function buildUntypedLosses(counts: readonly [LossCause, number][]): LossCount[] {
  return counts.filter(([, count]) => count > 0).map(([cause, count]) => ({ cause, eventType: null, count }));
}

/**
 * Divides losses of processes among services. `areAnyones`: whether markers of unknown or trusted writers were lost,
 * too.
 */
function shareOutLosses(losses: readonly KernelLossCount[], processLosses: ProcessLosses) {
  const ofProcesses = losses.filter(isOfProcess);
  const lost = processLosses.take(new Map(ofProcesses.map(({ recordType, count }) => [recordType, count])));
  const floods = lost.get(contextDefinition.id);
  const others = losses.filter((loss) => !isOfProcess(loss));
  const counts: LossCount[] = [
    ...others.map(({ recordType: _, ...loss }) => loss),
    ...buildServiceLosses('marker_flood', floods),
    ...buildServiceLosses('definition_lost', lost.get(fileDefinition.id)),
  ];
  const areAnyones = floods?.has(undefined) || others.some(({ recordType }) => recordType === contextDefinition.id);
  return { counts, areAnyones };
}

/** Whether the kernel side also counts this loss per process. */
function isOfProcess({ recordType, cause }: KernelLossCount): boolean {
  return recordType === fileDefinition.id || (recordType === contextDefinition.id && cause === 'marker_flood');
}

function buildServiceLosses(cause: LossCause, lost: LostByService = new Map()): LossCount[] {
  return [...lost].map(([service, count]) => ({ cause, service, eventType: null, count }));
}

interface RecordingFilter {
  /** Whether the filter leaves out any processes, so that each record must be checked. */
  asks: boolean;
  minDurationNs: number;
  service(service: string): boolean;
  process(process: FilteredProcess): boolean;
  lists(pid: number, executable: string): boolean;
  dataOwner(owner: DataOwner, label: string | null | undefined): boolean;
}

/** A filter that leaves nothing out. */
const EVERYTHING: RecordingFilter = {
  asks: false,
  minDurationNs: 0,
  service: () => true,
  process: () => true,
  lists: () => true,
  dataOwner: () => true,
};

/** Minimum interval between searches for old bios. A search visits all bios, which takes about 10 ms. */
const ROOM_EVERY_NS = 60e9;

/**
 * Removes bios that have waited too long for a request and would stay in the map forever.
 *
 * @param beforeNs CLOCK_BOOTTIME
 * @returns the times at which the removed bios were queued
 */
function forgetBios({ waitingBios, forgetBio }: Probes, beforeNs: number): number[] {
  const value = new Uint8Array(waitingBios.info.valueSize);
  const queuedNs = new BigUint64Array(value.buffer, 0, 1);
  const forgotten: number[] = [];
  for (const key of waitingBios.keys()) {
    if (!waitingBios.get(key, value) || Number(queuedNs[0]) > beforeNs) continue;
    if (forgetBio(key)) forgotten.push(Number(queuedNs[0]));
  }
  return forgotten;
}

/** Creates the tables that resolve the references in events. */
function createTables({ probes, writer, clock, ...options }: RecorderOptions, wanted: RecordingFilter) {
  const { oldestIds, nameId } = writer;
  const { watchThreads, watchRequests } = probes;
  const publishers =
    watchThreads &&
    createPublishers({
      watch: watchThreads,
      onService: (program, service) => processes.rename(program, service),
    });
  const contexts = createContexts({
    getThreadKeys: (pid) => publishers?.getThreadKeys(pid) ?? [],
    intern: writer.contextId,
    internName: nameId,
    oldestIds,
    trustsService: options.trustsService,
  });
  const programs = createPrograms();
  const cgroups = createCgroups(options.cgroups);
  const http = watchRequests && createHttpProcesses(watchRequests, options.httpServices ?? []);
  http?.considerAll(cgroups, clock.bootNs());
  const processes: Processes = createProcesses({
    programs,
    readProcessProgram,
    cgroups,
    intern: nameId,
    oldestIds,
    isOwn: options.isOwnProcess,
    wants: (process) => wanted.process(process),
    lists: (pid, executable) => wanted.lists(pid, executable),
    onUnwanted: probes.filter.dropProcess,
    onWantedAgain: probes.filter.keepProcess,
    rules: options.serviceRules,
    findPublishedService: (program) => publishers?.findPublishedService(program),
    onDefined(program, service, executable) {
      publishers?.consider(program);
      http?.consider(program, service, executable);
    },
  });
  const files = createFiles(writer.fileId);
  const internCgroupService = (id: number) => nameId(findCgroupService(cgroups.findPath(id, process.pid) ?? '') ?? '');
  const tables: ReferenceTables = {
    contexts,
    processes,
    files,
    internCgroupService,
    wantsDataOwner: (owner, label) => wanted.dataOwner(owner, label),
    internName: nameId,
    oldestIds,
    wallOffset: clock.offsetWords,
  };
  return { publishers, contexts, processes, programs, files, cgroups, tables };
}

/* Reads the kernel's loss counters and reports what was lost since the last call. */

export interface LossCount extends LossReason {
  /**
   * Null if the type is unknown, or if a definition was lost, which leaves events with an unknown owner, process or
   * file.
   */
  eventType: EventType | null;
  count: number;
}

/** A count from the kernel side, with the type of the records that were lost. */
interface KernelLossCount extends LossCount {
  recordType: number;
}

interface LossCounters {
  /** Returns what was lost since the last call, usually nothing. */
  take(): { losses: KernelLossCount[]; contextEndsLost: boolean };
}

export function createLossCounters(map: BpfMap): LossCounters {
  const key = new Uint8Array(4);
  const counters = new Float64Array(LOSS_TYPES_MAX * LOSS_CAUSES_MAX);
  const raw = new Uint8Array(map.valueBytes);
  const words = new Uint32Array(raw.buffer);
  const totals = new Float64Array(counters.length);

  /** Adds up the counters of all CPUs. */
  function readTotals(): void {
    map.get(key, raw);
    totals.fill(0);
    for (let i = 0; i < words.length / 2; i++) {
      const count = words[2 * i]! + words[2 * i + 1]! * 2 ** 32;
      if (count > 0) totals[i % totals.length]! += count;
    }
  }

  return {
    take() {
      readTotals();
      const losses: KernelLossCount[] = [];
      let contextEndsLost = false;
      for (let i = 0; i < counters.length; i++) {
        const total = totals[i]!;
        if (total === counters[i]) continue;
        const type = Math.trunc(i / LOSS_CAUSES_MAX);
        if (type === contextEnd.id) contextEndsLost = true;
        losses.push({
          cause: chooseLossCause(i % LOSS_CAUSES_MAX, type),
          eventType: EVENTS.find((event) => event.id === type)?.name ?? null,
          count: total - counters[i]!,
          recordType: type,
        });
        counters[i] = total;
      }
      return { losses, contextEndsLost };
    },
  };
}

function chooseLossCause(kernelCause: number, type: number): LossCause {
  const isOfEvent = EVENTS.some((event) => event.id === type);
  if (!isOfEvent && kernelCause < KERNEL_LOSS_CAUSES.LOSS_MARKER_UNREADABLE) return 'definition_lost';
  return KERNEL_LOSS_WORDS[kernelCause] ?? 'bad_record';
}
