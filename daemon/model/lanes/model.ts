/**
 * The lanes of a picture: first a lane for each thread, in groups by node, service and process; then, for each device
 * of a node, a lane for own requests and a lane for requests of others.
 */
import {
  type EventColumns,
  getExactValue,
  getRecording,
  getThread,
  getWhat,
  listBuffers,
  markRequestTypes,
  typeName,
} from '../columns/event_columns.ts';
import { computeShares, markQueuedRows, OTHER, OWN, type ShareOptions } from './shares.ts';
import { type LaneTrack, spread } from './tracks.ts';

export interface Lane {
  /** Key that stays the same for a thread or device in every picture. */
  key: string;
  kind: 'thread' | 'own_requests' | 'other_requests';
  node: string;
  service: string;
  pid: number;
  tid: number;
  comm: string;
  /** Name of the device; null for a thread, and for requests whose device is not known. */
  device: string | null;
  eventCount: number;
  tracks: LaneTrack[];
}

export interface LaneGroup {
  key: string;
  node: string;
  /** The process of the group; null for the devices of the node. */
  process: { service: string; pid: number } | null;
  lanes: Lane[];
}

export interface TimeSpan {
  fromNs: number;
  toNs: number;
}

export interface Device {
  node: string;
  /** Name of the device; null if it is not known. */
  name: string | null;
}

export interface LanesModel {
  columns: EventColumns;
  /** The share of each row: OWN, WRITTEN_BACK or OTHER. */
  shares: Uint8Array;
  /** 1 for each request that a task of the transactions queued, even if the request carries data of others. */
  queued: Uint8Array;
  /** Time of offset 0, in nanoseconds since the epoch. */
  baseNs: bigint;
  /** Start of each row, in nanoseconds: the offset from `baseNs`, with the clock offset of the node added. */
  starts: Float64Array;
  ends: Float64Array;
  devices: Device[];
  /** Index in `devices` of each request; -1 for a call of a thread. */
  deviceOf: Int32Array;
  groups: LaneGroup[];
  /** Start of the transactions' first event, own or written back: offset 0 of a replay. */
  firstNs: number;
  /** Time from the first own start to the last own end; null without own events. */
  ownSpan: TimeSpan | null;
  writtenBack: { count: number; lastEndNs: number } | null;
}

export interface LanesOptions extends ShareOptions {
  /** Nanoseconds that are added to the times of each node. */
  clockOffsetsNs?: ReadonlyMap<string, bigint>;
}

export function createLanes(columns: EventColumns, options: LanesOptions): LanesModel {
  const { count, duration } = columns;
  const { baseNs, starts } = computeStarts(columns, computeShifts(columns, options.clockOffsetsNs ?? new Map()));
  const ends = new Float64Array(count);
  const shares = computeShares(columns, options);
  let [firstNs, fromNs, toNs, lastEndNs] = [Infinity, Infinity, -Infinity, -Infinity];
  let writtenBackCount = 0;
  for (let row = 0; row < count; row++) {
    const start = starts[row]!;
    const end = start + duration[row]!;
    ends[row] = end;
    if (shares[row] === OTHER) continue;
    firstNs = Math.min(firstNs, start);
    if (shares[row] === OWN) {
      fromNs = Math.min(fromNs, start);
      toNs = Math.max(toNs, end);
    } else {
      writtenBackCount++;
      lastEndNs = Math.max(lastEndNs, end);
    }
  }
  const queued = markQueuedRows(columns, options);
  const rows = { columns, baseNs, shares, queued, starts, ends, ...collectDevices(columns) };
  return {
    ...rows,
    groups: groupLanes(rows),
    firstNs: firstNs === Infinity ? 0 : firstNs,
    ownSpan: toNs === -Infinity ? null : { fromNs, toNs },
    writtenBack: writtenBackCount > 0 ? { count: writtenBackCount, lastEndNs } : null,
  };
}

/**
 * Returns the shift of each thread: the clock offset of its node minus the smallest offset. So shifts are at least 0,
 * as in the daemon, and only the differences between clocks count.
 */
function computeShifts({ threads, recordings }: EventColumns, offsetsNs: ReadonlyMap<string, bigint>): bigint[] {
  const ofNode = recordings.map(({ node }) => offsetsNs.get(node) ?? 0n);
  const leastNs = ofNode.reduce((least, ns) => (ns < least ? ns : least), ofNode[0] ?? 0n);
  return threads.map(({ recording }) => ofNode[recording]! - leastNs);
}

/**
 * Returns the start of each row as an offset from the returned `baseNs`. If a clock is years off, a double may not
 * represent starts and shifts exactly even if their sums are close to each other. In that case, the starts count from
 * the earliest sum.
 */
function computeStarts(columns: EventColumns, shiftsNs: readonly bigint[]): Pick<LanesModel, 'baseNs' | 'starts'> {
  const { count, start, thread, exact } = columns;
  const starts = new Float64Array(count);
  const isFar = count > 0 && (exact.start.size > 0 || shiftsNs.some((ns) => ns > Number.MAX_SAFE_INTEGER));
  if (!isFar) {
    const shifts = shiftsNs.map(Number);
    for (let row = 0; row < count; row++) starts[row] = start[row]! + shifts[thread[row]!]!;
    return { baseNs: columns.baseNs, starts };
  }
  const computeShiftedNs = (row: number) => getExactValue(columns, 'start', row)! + shiftsNs[thread[row]!]!;
  let leastNs = computeShiftedNs(0);
  for (let row = 1; row < count; row++) if (computeShiftedNs(row) < leastNs) leastNs = computeShiftedNs(row);
  for (let row = 0; row < count; row++) starts[row] = Number(computeShiftedNs(row) - leastNs);
  return { baseNs: columns.baseNs + leastNs, starts };
}

function collectDevices(columns: EventColumns): Pick<LanesModel, 'devices' | 'deviceOf'> {
  const [devices, byKey, known]: [Device[], Map<string, number>, Map<number, number>] = [[], new Map(), new Map()];
  const isRequest = markRequestTypes(columns);
  const deviceOf = new Int32Array(columns.count).fill(-1);
  const getOrCreateDevice = (row: number): number => {
    const device = { node: getRecording(columns, row).node, name: getWhat(columns, row).target };
    const key = JSON.stringify([device.node, device.name]);
    const index = byKey.get(key) ?? devices.push(device) - 1;
    byKey.set(key, index);
    return index;
  };
  for (let row = 0; row < columns.count; row++) {
    if (!isRequest[columns.type[row]!]) continue;
    // The key is a number for the recording and the operation, because text keys for a million requests would take
    // longer than all other work.
    const place = columns.threads[columns.thread[row]!]!.recording * columns.whats.length + columns.what[row]!;
    const index = known.get(place) ?? getOrCreateDevice(row);
    known.set(place, index);
    deviceOf[row] = index;
  }
  return { devices, deviceOf };
}

type LaneColumns = Pick<LanesModel, 'columns' | 'shares' | 'queued' | 'starts' | 'ends' | 'devices' | 'deviceOf'>;
type LaneRows = Omit<Lane, 'tracks' | 'eventCount'> & { rows: number[] };

/**
 * Groups the lanes. Nodes, services, processes and threads are in the order of their first recorded event, which does
 * not change with clock offsets or later events. The devices of a node follow its threads, by name.
 */
function groupLanes(rows: LaneColumns): LaneGroup[] {
  const lanes = groupRowsByLane(rows);
  const buildLanes = (some: readonly LaneRows[]) => some.map((lane) => buildLane(lane, rows));
  return [...Map.groupBy(lanes, ({ node }) => node)].flatMap(([node, ofNode]) => {
    const threads = ofNode.filter(({ kind }) => kind === 'thread');
    const devices = ofNode.filter(({ kind }) => kind !== 'thread').sort((a, b) => (a.key < b.key ? -1 : 1));
    const groups: LaneGroup[] = [...Map.groupBy(threads, ({ service }) => service)].flatMap(([service, ofService]) =>
      [...Map.groupBy(ofService, ({ pid }) => pid)].map(([pid, ofProcess]) => ({
        key: JSON.stringify([node, service, pid]),
        node,
        process: { service, pid },
        lanes: buildLanes(ofProcess),
      })),
    );
    if (devices.length > 0)
      groups.push({ key: JSON.stringify([node]), node, process: null, lanes: buildLanes(devices) });
    return groups;
  });
}

function groupRowsByLane({ columns, shares, queued, devices, deviceOf }: LaneColumns): LaneRows[] {
  const isOthers = (row: number) => shares[row] === OTHER && queued[row] === 0;
  const lanes = new Map<string, LaneRows>();
  const known: LaneRows[] = [];
  const getOrCreateLane = (row: number): LaneRows => {
    const { pid, tid, comm, service } = getThread(columns, row);
    const device = devices[deviceOf[row]!];
    const kind = !device ? 'thread' : isOthers(row) ? 'other_requests' : 'own_requests';
    const { node } = getRecording(columns, row);
    const key = JSON.stringify(device ? [node, device.name, kind === 'other_requests'] : [node, service, pid, tid]);
    const lane = lanes.get(key) ?? { key, kind, node, service, pid, tid, comm, device: device?.name ?? null, rows: [] };
    lanes.set(key, lane);
    return lane;
  };
  for (let row = 0; row < columns.count; row++) {
    const thread = columns.thread[row]!;
    const device = deviceOf[row]!;
    const place = device < 0 ? 2 * devices.length + thread : 2 * device + (isOthers(row) ? 1 : 0);
    const lane = known[place] ?? getOrCreateLane(row);
    known[place] = lane;
    lane.rows.push(row);
    // The lane gets the last command name of its thread, which changes if the thread executes another program.
    if (device < 0) lane.comm = columns.threads[thread]!.comm;
  }
  return [...lanes.values()];
}

function buildLane({ rows, ...lane }: LaneRows, { starts, ends, columns }: LaneColumns): Lane {
  const ordered = sortLongerFirst(Uint32Array.from(rows), starts, ends);
  const tracks = spread(ordered, { starts, ends, type: columns.type, result: columns.result });
  return { ...lane, eventCount: rows.length, tracks };
}

/** Sorts events with the same start so that an event comes before the events that it encloses. */
function sortLongerFirst(rows: Uint32Array, starts: Float64Array, ends: Float64Array): Uint32Array {
  for (let from = 0, to = 1; from < rows.length; from = to++) {
    const startNs = starts[rows[from]!]!;
    while (to < rows.length && starts[rows[to]!] === startNs) to++;
    if (to - from > 1) rows.subarray(from, to).sort((a, b) => ends[b]! - ends[a]! || a - b);
  }
  return rows;
}

/**
 * Returns the buffers of a model, for `postMessage`, which transfers them from the worker to the page: the worker is
 * unable to use the model afterwards.
 */
export function listLanesBuffers({ columns, groups, ...model }: LanesModel): ArrayBuffer[] {
  const tracks = groups.flatMap(({ lanes }) => lanes.flatMap((lane) => lane.tracks));
  const peaks = tracks.flatMap((track) => track.peaks.flatMap((level) => Object.values(level)));
  const values = [...Object.values(model), ...tracks.flatMap((track) => Object.values(track)), ...peaks];
  const arrays = values.filter((value) => ArrayBuffer.isView(value)).map(({ buffer }) => buffer as ArrayBuffer);
  return [...new Set([...listBuffers(columns), ...arrays])];
}

/** Returns the name of a call or operation as labels show it, such as `fsync` or `write`. */
export function callName(columns: EventColumns, row: number): string {
  return getWhat(columns, row).operation || typeName(columns, row);
}

/** Returns whether two rows belong to the same thread of the same node. */
export function isSameThread(columns: EventColumns, one: number, other: number): boolean {
  if (columns.thread[one] === columns.thread[other]) return true;
  const a = getThread(columns, one);
  const b = getThread(columns, other);
  return a.pid === b.pid && a.tid === b.tid && getRecording(columns, one).node === getRecording(columns, other).node;
}
