/**
 * Finds the files on which calls come one after the other, whichever thread makes them: a pool, or goroutines that
 * write one log. There the order in the file identifies a call, and the thread does not.
 */
import { OPS } from '../format/plan_file.ts';
import type { Incident, IncidentStream } from './incident.ts';

/** Share of overlapping calls up to which the order in the file, not the thread, still identifies a call. */
const OVERLAPPING_SHARE_MAX = 0.02;

/** Returns the numbers of the streams on whose file calls of the stream's class, writes or syncs, are in order. */
export function findOrderedStreams({ calls, lanes }: Incident, streams: readonly IncidentStream[]): Set<number> {
  const { columns, count } = calls;
  const files = new Map<string, number>();
  const fileOf = streams.map((stream) => {
    const name = buildFileKey(stream);
    return files.get(name) ?? files.set(name, files.size).size - 1;
  });
  const lastEndNs = new Float64Array(files.size);
  const callsOf = new Uint32Array(files.size);
  const overlapping = new Uint32Array(files.size);
  for (const call of sortByStart(columns.startNs, count)) {
    const file = fileOf[lanes.getFirst(columns.lane[call]!)]!;
    const startNs = columns.startNs[call]!;
    if (callsOf[file]!++ > 0 && startNs < lastEndNs[file]!) overlapping[file]!++;
    lastEndNs[file] = Math.max(lastEndNs[file]!, startNs + columns.durationNs[call]!);
  }
  const isInOrder = (file: number) => overlapping[file]! <= callsOf[file]! * OVERLAPPING_SHARE_MAX;
  return new Set(fileOf.flatMap((file, stream) => (isInOrder(file) ? stream : [])));
}

const DELETED = / \(deleted\)$/;

/** Key by which the runner merges streams: the class, and the file or the kind of a socket, pipe or anonymous file. */
export function buildFileKey({ op, pathKind, path }: IncidentStream): string {
  if (op === 'msync' && path === '') return op;
  const file = pathKind === 'socket' || pathKind === 'pipe' || pathKind === 'anon' ? pathKind : path;
  return `${OPS[op] >= OPS.fsync} ${file.replace(DELETED, '')}`;
}

function sortByStart(startNs: ArrayLike<number>, count: number): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, call) => call);
  let isSorted = true;
  for (let call = 1; call < count && isSorted; call++) isSorted = startNs[call - 1]! <= startNs[call]!;
  return isSorted ? order : order.sort((a, b) => startNs[a]! - startNs[b]!);
}
