/**
 * Finds the files on which calls hardly ever overlap, even calls of different threads. Examples are the logs of a
 * thread pool or of goroutines. On such a file, calls are matched by their order in the file, not by thread.
 */
import { OPS } from '../format/plan_file.ts';
import type { Incident, IncidentStream } from './incident.ts';

/** Maximum share of overlapping calls on a file. Above this share, calls on the file are matched by thread. */
const OVERLAPPING_SHARE_MAX = 0.02;

/**
 * Returns the numbers of the streams whose calls are matched by their order in the file. Writes and syncs of a file are
 * judged separately.
 */
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

/**
 * Builds the key by which the runner merges streams. The key consists of the class (write or sync) and the path; a
 * socket, pipe or anonymous file has its kind instead of a path.
 */
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
