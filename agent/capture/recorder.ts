/**
 * One turn of the recorder: ring -> columns -> owners -> recording.
 *
 * The event ring is drained before the definition ring: a program submits a definition before the first event that
 * refers to it, so every reference of the drained events can be resolved.
 */

import { createDecoder } from '../../bpf/schema/decoder.ts';
import { EVENTS } from '../../bpf/schema/index.ts';
import type { LossCause } from '../../bpf/schema/losses.ts';
import { type CgroupSource, createCgroups } from '../attribution/cgroups.ts';
import { createContexts } from '../attribution/contexts.ts';
import { createFiles } from '../attribution/files.ts';
import { createHttpProcesses } from '../attribution/http_processes.ts';
import { programOfProcess } from '../attribution/proc_program.ts';
import { createProcesses, type Processes } from '../attribution/processes.ts';
import { createPrograms } from '../attribution/programs.ts';
import { createPublishers } from '../attribution/publishers.ts';
import { createResolver } from '../attribution/resolve.ts';
import type { ServiceRule } from '../attribution/service_name/rules.ts';
import { serviceOfCgroup } from '../attribution/service_name/service_name.ts';
import { START_ROUNDING_NS } from '../attribution/start_time.ts';
import { asksForProcesses, type ProcessFacts, wantsProcess, wantsService } from '../filter/process_filter.ts';
import type { FilterSettings } from '../filter/settings.ts';
import type { WriterThread } from '../recording/write/writer_thread.ts';
import { createDefinitionStream } from './definition_stream.ts';
import { createLossCounters, type LossCount } from './loss_counters.ts';
import type { Probes } from './probes.ts';
import { forgetLongGone } from './waiting_bios.ts';
import type { WallClock } from './wall_clock.ts';

/**
 * About 10,000 events: at most this much is copied out in one go before definitions are read again. It fits the
 * processor's caches, and a turn takes some milliseconds.
 */
const BUFFER_BYTES = 1 << 20;
/** At most so many events are in it. */
const BUFFER_ROWS_MAX = Math.floor(BUFFER_BYTES / Math.min(...EVENTS.map(({ size }) => size)));

export interface Recorder {
  /**
   * Moves what the rings hold into the recording's open part. Gives the bytes that the event ring held; undefined while
   * the writer has no room: the ring keeps the events, and counts what it cannot keep.
   */
  turn(): number | undefined;
  /** What is recorded from now on. */
  setFilter(settings: FilterSettings): void;
  /** Events recorded since the start. */
  readonly eventCount: number;
  /** Events and definitions lost since the start. */
  readonly lossCount: number;
  /** Malformed fields of marker lines since the start. */
  readonly badMarkerFieldCount: number;
}

export interface RecorderOptions {
  probes: Probes;
  writer: Omit<WriterThread, 'flush' | 'isOverwritten' | 'close'>;
  clock: WallClock;
  cgroups: CgroupSource;
  serviceRules?: readonly ServiceRule[] | undefined;
  /** Whose requests are read. */
  httpServices?: readonly string[] | undefined;
  isOwnProcess(pid: number, uid: number): boolean;
  trustsService(uid: number): boolean;
}

export function createRecorder(options: RecorderOptions): Recorder {
  const { probes, writer, clock } = options;
  const { oldestIds } = writer;
  const wanted: Wanted = { asks: false, service: () => true, process: () => true };
  const { publishers, contexts, processes, programs, files, cgroupServiceId } = createTables(options, wanted);
  const definitions = createDefinitionStream(probes.definitions, { contexts, processes, programs, files });
  const decoder = createDecoder();
  const resolver = createResolver(decoder.decoded, {
    contexts,
    processes,
    files,
    cgroupServiceId,
    internName: writer.nameId,
    oldestIds,
    wallOffset: clock.offsetWords,
  });
  const kernelLosses = createLossCounters(probes.losses);
  const buffer = new Uint8Array(BUFFER_BYTES);
  const words = new Uint32Array(buffer.buffer);
  const isKept = (record: Uint32Array, offset: number) =>
    !resolver.isOwn(record, offset) && (!wanted.asks || resolver.isWanted(record, offset, wanted.service));
  let recursionMisses = 0n;
  let lookedBootNs = clock.bootNs();
  let nextRoomBootNs = 0;
  let eventCount = 0;
  let lossCount = 0;

  /**
   * Before owners are resolved: a context whose end was lost must not be believed any longer.
   *
   * What a look counts was lost after the clock was read before the last one, and before it is read after this one: the
   * agent can be held up between any two of them. In the boot clock, which nobody sets: the events that were not lost
   * get their wall time from it as well (test/kernel/loss_times.test.ts).
   */
  function takeKernelLosses() {
    const from = lookedBootNs;
    lookedBootNs = clock.bootNs();
    const { losses, contextEndsLost } = kernelLosses.take();
    const missed = probes.recursionMisses();
    const busy = Number(missed - recursionMisses);
    recursionMisses = missed;
    if (contextEndsLost) contexts.endAll(from);
    const counts = [...losses, ...anyones([['program_busy', busy]]), ...makeRoomForBios(losses)];
    return { counts, fromNs: clock.wallNs(from), toNs: clock.wallNs(clock.bootNs()) };
  }

  /** Where the kernel has skipped the programs of a request, its bios would take their room for good. */
  function makeRoomForBios(losses: readonly LossCount[]): LossCount[] {
    const isFull = losses.some(({ cause, eventType }) => cause === 'no_memory' && eventType === 'block_io');
    if (!isFull || lookedBootNs < nextRoomBootNs) return [];
    nextRoomBootNs = lookedBootNs + ROOM_EVERY_NS;
    const count = forgetLongGone(probes.waitingBios, lookedBootNs);
    return count > 0 ? [{ cause: 'end_missed', eventType: 'block_io', count }] : [];
  }

  function takeOwnLosses(): LossCount[] {
    return anyones([
      ['bad_record', decoder.takeBadRecords()],
      ['definition_lost', definitions.takeBadRecords() + contexts.takeLost()],
    ]);
  }

  return {
    turn() {
      if (writer.freeRows() < BUFFER_ROWS_MAX) return undefined;
      const change = clock.measure();
      if (change) writer.recordClock(change);
      const filled = probes.events.drain(buffer);
      definitions.drain();
      const { counts, fromNs, toNs } = takeKernelLosses();
      for (let at = 0; at < filled; ) {
        at = decoder.decode(buffer, at, filled, isKept);
        resolver.resolve(words);
        eventCount += decoder.decoded.block.rowCount;
        writer.append(decoder.decoded.block);
      }
      publishers?.look(performance.now());
      for (const loss of [...counts, ...takeOwnLosses()]) {
        lossCount += loss.count;
        writer.recordLoss({ ...loss, fromNs, toNs });
      }
      return filled;
    },
    setFilter(settings) {
      wanted.asks = asksForProcesses(settings);
      wanted.service = (service) => wantsService(settings, service);
      wanted.process = (process) => wantsProcess(settings, process);
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

/** Losses of which the type of event is not known. */
function anyones(counts: readonly [LossCause, number][]): LossCount[] {
  return counts.filter(([, count]) => count > 0).map(([cause, count]) => ({ cause, eventType: null, count }));
}

interface Wanted {
  /** Whether anything is not. */
  asks: boolean;
  service(service: string): boolean;
  process(process: ProcessFacts): boolean;
}

/** A look at all bios that wait takes some 10 ms. */
const ROOM_EVERY_NS = 60e9;

/** What events refer to. */
function createTables({ probes, writer, clock, ...options }: RecorderOptions, wanted: Wanted) {
  const { oldestIds, nameId } = writer;
  const { watchThreads, watchRequests } = probes;
  const onService = (pid: number, startNs: number, service: string) => processes.rename(pid, startNs, service);
  const publishers = watchThreads && createPublishers({ watch: watchThreads, onService });
  const contexts = createContexts({
    threadKeys: (pid) => publishers?.threadKeys(pid) ?? [],
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
    programOfProcess,
    cgroups,
    intern: nameId,
    oldestIds,
    isOwn: options.isOwnProcess,
    wants: (process) => wanted.process(process),
    onUnwanted: (pid, startNs) => probes.filter.dropProcess(pid, startNs + START_ROUNDING_NS),
    rules: options.serviceRules,
    publishedService: (pid, startNs) => publishers?.serviceOf(pid, startNs),
    onDefined({ pid, start_ns }, service, executable) {
      publishers?.consider(pid, start_ns);
      http?.consider(pid, start_ns, service, executable);
    },
  });
  const files = createFiles(writer.fileId);
  const cgroupServiceId = (id: number) => nameId(serviceOfCgroup(cgroups.pathOf(id, process.pid) ?? '') ?? '');
  return { publishers, contexts, processes, programs, files, cgroupServiceId };
}
