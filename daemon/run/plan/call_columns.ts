/** Calls as columns that grow: a million of them take 50 MB and no objects. */

const CAPACITY_MIN = 1024;

export interface CallColumns {
  /** Start of the call, relative to the incident's first event. */
  startNs: Float64Array;
  durationNs: Float64Array;
  size: Uint32Array;
  /** Number of the lane: a thread in a stream. */
  lane: Uint32Array;
  /** Combination of EVENT_FLAGS. */
  flags: Uint16Array;
}

export interface Calls {
  readonly count: number;
  /** The columns are longer than `count`. They must not be kept: adding calls may replace them. */
  readonly columns: CallColumns;
  add(startNs: number, durationNs: number, size: number, lane: number, flags: number): void;
}

export function newCalls(): Calls {
  let count = 0;
  let columns = withRoom(CAPACITY_MIN);
  return {
    get count() {
      return count;
    },
    get columns() {
      return columns;
    },
    add(startNs, durationNs, size, lane, flags) {
      if (count === columns.size.length) columns = withRoom(count * 2, columns);
      columns.startNs[count] = startNs;
      columns.durationNs[count] = durationNs;
      columns.size[count] = size;
      columns.lane[count] = lane;
      columns.flags[count] = flags;
      count++;
    },
  };
}

function withRoom(capacity: number, before?: CallColumns): CallColumns {
  const columns = {
    startNs: new Float64Array(capacity),
    durationNs: new Float64Array(capacity),
    size: new Uint32Array(capacity),
    lane: new Uint32Array(capacity),
    flags: new Uint16Array(capacity),
  };
  if (before) {
    columns.startNs.set(before.startNs);
    columns.durationNs.set(before.durationNs);
    columns.size.set(before.size);
    columns.lane.set(before.lane);
    columns.flags.set(before.flags);
  }
  return columns;
}
