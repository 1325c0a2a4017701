/**
 * Finds the block requests that a call waited for, and the calls that waited for a request. A link is exact if the
 * call's thread queued the request during the call. A link is inferred if the request writes back data of the
 * transactions during one of their syncs. The search uses the sorted tracks, so that no index of all events must be
 * built first.
 */
import { findFirstAtLeast, getRecording } from '../../model/columns/event_columns.ts';
import { isSameThread, type Lane, type LanesModel } from '../../model/lanes/model.ts';
import { OWN, WRITTEN_BACK } from '../../model/lanes/shares.ts';

export interface RowLink {
  /**
   * Row at the other end of the link: a request if the given row is a call, and a call if the given row is a request.
   */
  row: number;
  kind: 'exact' | 'inferred';
}

export interface LinksOfRow {
  /** The first links in order of start, at most `most` of them. */
  first: RowLink[];
  last: RowLink | null;
  count: number;
}

export interface Links {
  /** Returns the links of a row: from a call to its requests, or from a request to its calls. */
  findLinks(row: number, most?: number): LinksOfRow;
}

const KINDS = ['exact', 'inferred'] as const;
const EXACT = 1;
const INFERRED = 2;

export function createLinks(model: LanesModel): Links {
  const { columns, starts, ends, deviceOf, shares } = model;
  const isSync = Array.from({ length: 256 }, (_, type) => columns.types.get(type) === 'sys_sync');

  /** Returns a function that classifies the link from `row` to another row: EXACT, INFERRED, or 0 for no link. */
  function createLinkClassifier(row: number): (other: number) => number {
    const isRequest = deviceOf[row]! >= 0;
    // Result of comparing each thread with the thread of `row`: 0 not compared yet, 1 the same thread, 2 another
    // thread.
    const compared = new Uint8Array(columns.threads.length);
    return (other) => {
      const call = isRequest ? other : row;
      const request = isRequest ? row : other;
      const queuedNs = starts[request]!;
      if (queuedNs >= starts[call]! && queuedNs <= ends[call]!) {
        const thread = columns.thread[other]!;
        if (compared[thread] === 0) compared[thread] = isSameThread(columns, row, other) ? 1 : 2;
        if (compared[thread] === 1) return EXACT;
      }
      if (shares[call] !== OWN || shares[request] !== WRITTEN_BACK || !isSync[columns.type[call]!]) return 0;
      return Math.max(starts[call]!, queuedNs) < Math.min(ends[call]!, ends[request]!) ? INFERRED : 0;
    };
  }

  function findLinks(row: number, most = Number.POSITIVE_INFINITY): LinksOfRow {
    const { node } = getRecording(columns, row);
    const isOther = (lane: Lane) => lane.node === node && (lane.kind === 'thread') === deviceOf[row]! >= 0;
    const classify = createLinkClassifier(row);
    const from = starts[row]!;
    const to = ends[row]!;
    // Rows are in order of start. So an array indexed by row puts the links of all tracks in order without sorting.
    const kinds = new Uint8Array(columns.count);
    let low = columns.count;
    let high = -1;
    for (const { tracks } of model.groups.flatMap(({ lanes }) => lanes.filter(isOther)))
      for (const { rows, starts: sorted, reach } of tracks)
        for (let at = findFirstAtLeast(reach, from); at < rows.length && sorted[at]! <= to; at++) {
          const other = rows[at]!;
          const kind = classify(other);
          if (kind === 0) continue;
          kinds[other] = kind;
          if (other < low) low = other;
          if (other > high) high = other;
        }
    return collectLinks(kinds, low, high, most);
  }

  return { findLinks };
}

function collectLinks(kinds: Uint8Array, low: number, high: number, most: number): LinksOfRow {
  const buildLink = (row: number): RowLink => ({ row, kind: KINDS[kinds[row]! - 1]! });
  const first: RowLink[] = [];
  let count = 0;
  for (let row = low; row <= high; row++) {
    if (kinds[row] === 0) continue;
    if (count++ < most) first.push(buildLink(row));
  }
  return { first, last: high < 0 ? null : buildLink(high), count };
}
