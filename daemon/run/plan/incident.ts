/**
 * An incident in the form from which a plan is compiled. Calls are stored as columns, and shared values are replaced by
 * numbers. Calls must be added in recorded order.
 *
 *   stream  calls of one kind to one path, by threads of one name in one service
 *   lane    one thread in a stream
 */

import type { FileKind } from '../../../bpf/schema/owner.ts';
import { growArray } from '../../base/growing_array.ts';
import { RunError } from '../errors.ts';
import { EVENT_FLAGS, OPS, type Op, PATH_KINDS, type PathKind, SIZE_UNKNOWN } from '../format/plan_file.ts';
import { createDiskWaits, type LeftOutRequests } from './disk_waits.ts';

export interface RecordedOwner {
  node: string;
  tid: number;
  comm: string;
  service: string;
}

/** A recorded write or sync. */
export interface RecordedCall extends RecordedOwner {
  op: Op;
  path: string;
  fileKind: FileKind;
  fd: number;
  startNs: bigint;
  durationNs: number;
  /** Bytes that the call asked to write; undefined when unknown. */
  size: number | undefined;
}

export interface RecordedRequest extends RecordedOwner {
  device: string;
  operation: string;
  startNs: bigint;
  durationNs: number;
}

export interface IncidentStream {
  op: Op;
  path: string;
  pathKind: PathKind;
  comm: string;
  service: string;
  /**
   * Whether all calls of the stream were on the descriptors 1 and 2. The file was then the output of a program, such as
   * a log.
   */
  isOutput: boolean;
}

export interface Incident {
  /** Number of events that were read, including those that are not replayable. */
  readonly eventCount: number;
  /** Names of all services of the incident, including services that were left out. */
  readonly services: readonly string[];
  readonly notReplayable: Readonly<LeftOutRequests & { standard_streams: number; no_file: number }>;
  /** Whether some calls are on descriptors 0 to 2. */
  readonly usesStandardFds: boolean;
  readonly calls: Calls;
  /** The lanes. A lane is a numbered pair of a stream and a thread. */
  readonly lanes: Pairs;
  readonly streamCount: number;
  buildStream(number: number): IncidentStream;
  /** Returns the kernel's thread id; `thread` is the number of the thread in the incident. */
  getTid(thread: number): number;
}

export interface IncidentBuilder {
  addCall(call: RecordedCall): void;
  addRequest(request: RecordedRequest): void;
  finish(): Incident;
}

const KIND_OF_FILE: Readonly<Record<FileKind, PathKind>> = {
  regular: 'regular',
  directory: 'unknown',
  character_device: 'device',
  block_device: 'device',
  pipe: 'pipe',
  socket: 'socket',
  anonymous: 'anon',
  unknown: 'unknown',
};

const STANDARD_FD_MAX = 2;
const OUTPUT_FDS: ReadonlySet<number> = new Set([1, 2]);
const STORES: ReadonlySet<FileKind> = new Set(['regular', 'block_device']);
const OPS_WITHOUT_FD: ReadonlySet<Op> = new Set(['sync', 'msync']);
const OP_NAMES = Object.keys(OPS) as Op[];
const KIND_NAMES = Object.keys(PATH_KINDS) as PathKind[];

/** Maximum length of an incident: a double represents every nanosecond up to this number exactly. */
const SPAN_NS_MAX = Number.MAX_SAFE_INTEGER;

/**
 * Creates a builder. With `service`, events of other services are left out, and the incident begins with that service's
 * first event.
 */
export function createIncident(service?: string): IncidentBuilder {
  const services = new Set<string>();
  const texts = createNumbering<string>();
  const [threads, devices, files, owners, streams, lanes] = Array.from({ length: 6 }, createPairs) as SixPairs;
  const calls = createCalls();
  const waits = createDiskWaits();
  /**
   * Streams of the last write to a regular file, by thread and by node. A derived sync is assumed to be for the file
   * that its thread wrote last or, if the thread wrote no file, for the file that its node wrote last.
   */
  const lastOfThread = new Map<number, number>();
  const lastOfNode = new Map<number, number>();
  /** Streams with at least one call on a descriptor other than 1 and 2. */
  const beyondOutputs = new Set<number>();
  let [eventCount, standardStreams, noFile, usesStandardFds] = [0, 0, 0, false];
  let firstNs: bigint | undefined;

  /** Returns whether `service` was given and the event belongs to another service. */
  function isOfOthers(owner: RecordedOwner): boolean {
    services.add(owner.service);
    return service !== undefined && owner.service !== service;
  }

  function computeOffsetNs(startNs: bigint): number {
    firstNs ??= startNs;
    const offset = Number(startNs - firstNs);
    if (offset < 0) throw new RunError('the events of the transaction are not in the order of their times');
    if (offset > SPAN_NS_MAX) throw new RunError('the transaction is longer than the 104 days that can be replayed');
    return offset;
  }

  const findOrAddThread = ({ node, tid }: RecordedOwner) => threads.findOrAddPair(texts.findOrAddValue(node), tid);

  function findOrAddStream(op: Op, kind: PathKind, path: string, owner: number): number {
    const file = files.findOrAddPair(texts.findOrAddValue(path), OPS[op] * KIND_NAMES.length + PATH_KINDS[kind]);
    return streams.findOrAddPair(file, owner);
  }

  function buildStream(number: number): IncidentStream {
    const file = streams.getFirst(number);
    const owner = streams.getSecond(number);
    const kinds = files.getSecond(file);
    const getText = (at: number) => texts.list[at]!;
    return {
      op: OP_NAMES[Math.floor(kinds / KIND_NAMES.length)]!,
      path: getText(files.getFirst(file)),
      pathKind: KIND_NAMES[kinds % KIND_NAMES.length]!,
      comm: getText(owners.getFirst(owner)),
      service: getText(owners.getSecond(owner)),
      isOutput: !beyondOutputs.has(number),
    };
  }

  return {
    addCall(call) {
      if (isOfOthers(call)) return;
      const { op, path, fileKind, fd, comm, service, durationNs, size } = call;
      eventCount++;
      const startNs = computeOffsetNs(call.startNs);
      const thread = findOrAddThread(call);
      const node = texts.findOrAddValue(call.node);
      const isSync = OPS[op] >= OPS.fsync;
      waits.call({ thread, node, endNs: startNs + durationNs, isSync });
      const isStandard = fd >= 0 && fd <= STANDARD_FD_MAX;
      // The call went to the terminal, pipe or socket of the recorded process; the build has a different one.
      if (isStandard && !STORES.has(fileKind)) {
        standardStreams++;
        return;
      }
      // A call without a path (for example, on a descriptor that was not open) matches no call of a build.
      if (path === '' && !OPS_WITHOUT_FD.has(op)) {
        noFile++;
        return;
      }
      usesStandardFds ||= isStandard;
      const owner = owners.findOrAddPair(texts.findOrAddValue(comm), texts.findOrAddValue(service));
      const number = findOrAddStream(op, KIND_OF_FILE[fileKind], path, owner);
      if (!OUTPUT_FDS.has(fd)) beyondOutputs.add(number);
      if (fileKind === 'regular' && !isSync) {
        lastOfThread.set(thread, number);
        lastOfNode.set(node, number);
      }
      calls.add(startNs, durationNs, encodeSize(size), lanes.findOrAddPair(number, thread), 0);
    },
    addRequest(request) {
      if (isOfOthers(request)) return;
      eventCount++;
      const startNs = computeOffsetNs(request.startNs);
      const thread = findOrAddThread(request);
      const node = texts.findOrAddValue(request.node);
      const { comm, operation, durationNs } = request;
      waits.request({
        thread,
        node,
        comm,
        operation,
        startNs,
        endNs: startNs + durationNs,
        owner: owners.findOrAddPair(texts.findOrAddValue(comm), texts.findOrAddValue(request.service)),
        file: lastOfThread.get(thread) ?? lastOfNode.get(node),
        device: devices.findOrAddPair(node, texts.findOrAddValue(request.device)),
      });
    },
    finish() {
      for (const { thread, owner, file, startNs, endNs } of waits.finish()) {
        const written = file === undefined ? undefined : buildStream(file);
        const number = findOrAddStream('fsync', written ? 'regular' : 'unknown', written?.path ?? '', owner);
        beyondOutputs.add(number);
        calls.add(startNs, endNs - startNs, SIZE_UNKNOWN, lanes.findOrAddPair(number, thread), EVENT_FLAGS.derived);
      }
      return {
        eventCount,
        services: [...services].sort(),
        notReplayable: { ...waits.leftOut, standard_streams: standardStreams, no_file: noFile },
        usesStandardFds,
        calls,
        lanes,
        streamCount: streams.count,
        buildStream,
        getTid: (thread) => threads.getSecond(thread),
      };
    },
  };
}

type SixPairs = [Pairs, Pairs, Pairs, Pairs, Pairs, Pairs];

function encodeSize(size: number | undefined): number {
  return size === undefined ? SIZE_UNKNOWN : Math.min(size, SIZE_UNKNOWN - 1);
}

/* Calls, stored as growing columns. A million calls take 50 MB. */

const CAPACITY_MIN = 1024;

interface CallColumns {
  /** Start of the call, relative to the incident's first event. */
  startNs: Float64Array;
  durationNs: Float64Array;
  size: Uint32Array;
  /** Number of the call's lane. */
  lane: Uint32Array;
  /** Combination of EVENT_FLAGS. */
  flags: Uint16Array;
}

interface Calls {
  readonly count: number;
  /** The columns, which may be longer than `count`. Callers must not keep them, because `add` may replace them. */
  readonly columns: CallColumns;
  add(startNs: number, durationNs: number, size: number, lane: number, flags: number): void;
}

function createCalls(): Calls {
  let count = 0;
  let columns = allocateColumns(CAPACITY_MIN);
  return {
    get count() {
      return count;
    },
    get columns() {
      return columns;
    },
    add(startNs, durationNs, size, lane, flags) {
      if (count === columns.size.length) columns = growColumns(columns);
      columns.startNs[count] = startNs;
      columns.durationNs[count] = durationNs;
      columns.size[count] = size;
      columns.lane[count] = lane;
      columns.flags[count] = flags;
      count++;
    },
  };
}

function allocateColumns(capacity: number): CallColumns {
  return {
    startNs: new Float64Array(capacity),
    durationNs: new Float64Array(capacity),
    size: new Uint32Array(capacity),
    lane: new Uint32Array(capacity),
    flags: new Uint16Array(capacity),
  };
}

function growColumns({ startNs, durationNs, size, lane, flags }: CallColumns): CallColumns {
  return {
    startNs: growArray(startNs),
    durationNs: growArray(durationNs),
    size: growArray(size),
    lane: growArray(lane),
    flags: growArray(flags),
  };
}

/* Assigns numbers to values in the order in which the values first appear, starting at 0. */

interface Numbering<Value> {
  /** The values, indexed by their numbers. */
  readonly list: readonly Value[];
  findOrAddValue(value: Value): number;
}

function createNumbering<Value>(): Numbering<Value> {
  const list: Value[] = [];
  const numbers = new Map<Value, number>();
  return {
    list,
    findOrAddValue(value) {
      const known = numbers.get(value);
      if (known !== undefined) return known;
      const number = list.push(value) - 1;
      numbers.set(value, number);
      return number;
    },
  };
}

/** Exclusive limit for both numbers of a pair. Two such numbers combine to one key that a double represents exactly. */
const PAIR_MAX = 2 ** 26;

interface Pairs {
  readonly count: number;
  findOrAddPair(first: number, second: number): number;
  getFirst(number: number): number;
  getSecond(number: number): number;
}

function createPairs(): Pairs {
  const keys = createNumbering<number>();
  return {
    get count() {
      return keys.list.length;
    },
    findOrAddPair(first, second) {
      if (first >= PAIR_MAX || second >= PAIR_MAX)
        throw new RunError(`the incident has more than ${PAIR_MAX} of a kind, or a thread id above`);
      return keys.findOrAddValue(first * PAIR_MAX + second);
    },
    getFirst: (number) => Math.floor(keys.list[number]! / PAIR_MAX),
    getSecond: (number) => keys.list[number]! % PAIR_MAX,
  };
}
