/**
 * Which requests a call waited for, and which calls waited for a request. A link is exact where the thread of the call
 * queued the request within it, and inferred where the request carries data of the transactions while one of their
 * syncs runs.
 */
import { firstAtLeast, recordingOf, typeName } from '../columns/event_columns.ts';
import { isSameThread, type LanesModel } from './model.ts';
import { OWN, WRITTEN_BACK } from './shares.ts';
import { reachOf } from './tracks.ts';

export interface Link {
  /** The other end: a request for a call, a call for a request. */
  row: number;
  kind: 'exact' | 'inferred';
}

export interface Links {
  /** The links of a row in order of start: to requests for a call, to calls for a request. */
  of(row: number): Link[];
}

interface Sorted {
  rows: Uint32Array;
  starts: Float64Array;
  /** The latest end up to each row. */
  reach: Float64Array;
}

export function createLinks(model: LanesModel): Links {
  const { columns, starts, ends, deviceOf, shares } = model;
  const rows = Array.from({ length: columns.count }, (_, row) => row);
  const byNode = ([...some]: Iterable<number>) =>
    new Map(
      [...Map.groupBy(some, (row) => recordingOf(columns, row).node)].map(([node, list]) => [node, sorted(list)]),
    );
  const requests = byNode(rows.filter((row) => deviceOf[row]! >= 0));
  const calls = byNode(rows.filter((row) => deviceOf[row]! < 0));

  function sorted(list: readonly number[]): Sorted {
    const startsOf = Float64Array.from(list, (row) => starts[row]!);
    return {
      rows: Uint32Array.from(list),
      starts: startsOf,
      reach: reachOf(Float64Array.from(list, (row) => ends[row]!)),
    };
  }

  function kindOf(call: number, request: number): Link['kind'] | null {
    const queuedNs = starts[request]!;
    if (queuedNs >= starts[call]! && queuedNs <= ends[call]! && isSameThread(columns, call, request)) return 'exact';
    const mayWait = shares[call] === OWN && shares[request] === WRITTEN_BACK && typeName(columns, call) === 'sys_sync';
    return mayWait && Math.max(starts[call]!, queuedNs) < Math.min(ends[call]!, ends[request]!) ? 'inferred' : null;
  }

  function of(row: number): Link[] {
    const isRequest = deviceOf[row]! >= 0;
    const others = (isRequest ? calls : requests).get(recordingOf(columns, row).node);
    const found: Link[] = [];
    if (!others) return found;
    for (let at = firstAtLeast(others.reach, starts[row]!); others.starts[at]! <= ends[row]!; at++) {
      const other = others.rows[at]!;
      const kind = isRequest ? kindOf(other, row) : kindOf(row, other);
      if (kind) found.push({ row: other, kind });
    }
    return found;
  }

  return { of };
}
