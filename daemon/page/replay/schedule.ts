/**
 * Computes when a session plays each event, by the same rules as the daemon. A call becomes longer by the latency that
 * its caller waits for. Later events of its thread begin later by the sum of these latencies. Idle times are shortened
 * to the longest gap.
 */
import type { Only } from '../../contract/received.ts';
import type { LanesModel } from '../../model/lanes/model.ts';
import { numberThreads } from '../../model/lanes/request_times.ts';
import { OTHER, OWN } from '../../model/lanes/shares.ts';
import {
  createThreadDelay,
  endCall,
  getsLatency,
  goOn,
  isCallType,
  type ThreadDelay,
  take,
} from '../../model/thread_delay.ts';
import type { ProjectedTimes } from '../draw/projected.ts';

export interface ChosenLatency {
  latencyNs: number;
  only: Only;
}

export interface RowScheduleSettings extends ChosenLatency {
  /** Longest gap, in nanoseconds; null leaves gaps as recorded. */
  maxGapNs: number | null;
}

export interface RowSchedule {
  /** Rows of the transaction's events in the order of the replay. */
  rows: Uint32Array;
  /** Start of each event, in nanoseconds from the start of the replay. */
  starts: Float64Array;
  /** Number of gaps that were shortened; `cutNs` is the total time removed, in nanoseconds. */
  cutCount: number;
  cutNs: number;
}

type Model = Pick<LanesModel, 'columns' | 'shares' | 'starts' | 'ends'>;

export function computeSchedule(model: Model, settings: RowScheduleSettings): RowSchedule {
  const { rows, starts, ends } = projectTimes(model, settings);
  const schedule: RowSchedule = { rows, starts: new Float64Array(rows.length), cutCount: 0, cutNs: 0 };
  if (rows.length === 0) return schedule;
  const { maxGapNs } = settings;
  const originNs = starts[rows[0]!]!;
  let lastEndNs = 0;
  for (const [place, row] of rows.entries()) {
    const startNs = starts[row]! - originNs;
    if (maxGapNs !== null && startNs - lastEndNs > maxGapNs) {
      schedule.cutCount++;
      schedule.cutNs += startNs - lastEndNs - maxGapNs;
    }
    lastEndNs = Math.max(lastEndNs, startNs, ends[row]! - originNs);
    schedule.starts[place] = startNs - schedule.cutNs;
  }
  return schedule;
}

/**
 * Computes the start and end of each event with the latency, but with gaps as recorded. Times are on the model's time
 * line and indexed by row. The `rows` of the result are the transaction's rows, ordered by new start and then as
 * recorded.
 */
export function projectTimes(
  { columns, shares, starts, ends }: Model,
  { latencyNs, only }: ChosenLatency,
): ProjectedTimes {
  const newStarts = Float64Array.from(starts);
  const newEnds = Float64Array.from(ends);
  const lanes = numberThreads(columns);
  const isAffected = createAffectedTest(columns, only);
  const isCallOf = Array.from({ length: 256 }, (_, id) => isCallType(columns.types.get(id) ?? ''));
  const threads: ScheduledThread[] = [];
  const rows = new Uint32Array(columns.count);
  let count = 0;
  let [isSorted, hasOwn] = [true, false];
  let beforeNs = Number.NEGATIVE_INFINITY;
  for (let row = 0; row < columns.count; row++) {
    if (shares[row] === OTHER) continue;
    const at = lanes[columns.thread[row]!]!;
    threads[at] ??= { delay: createThreadDelay(), call: -1 };
    const lane = threads[at];
    const { delay } = lane;
    const isCall = isCallOf[columns.type[row]!]!;
    const addedNs = isAffected(row) ? latencyNs : 0;
    hasOwn ||= shares[row] === OWN;
    if (hasOwn) {
      if (goOn(delay, starts[row]!, isCall)) newEnds[lane.call]! += delay.added;
      take(delay, ends[row]!, isCall, addedNs);
      if (isCall) lane.call = row;
    }
    if (!isCall || !hasOwn) newEnds[row]! += delay.added + addedNs;
    newStarts[row]! += delay.added;
    isSorted &&= newStarts[row]! >= beforeNs;
    beforeNs = newStarts[row]!;
    rows[count++] = row;
  }
  for (const lane of threads) if (lane && endCall(lane.delay)) newEnds[lane.call]! += lane.delay.added;
  const own = rows.subarray(0, count);
  if (!isSorted) own.sort((a, b) => newStarts[a]! - newStarts[b]! || a - b);
  return { rows: own, starts: newStarts, ends: newEnds };
}

/** Returns the end of the last event that the caller waits for. */
export function computeOwnEndNs({ shares }: Model, { rows, ends }: ProjectedTimes): number {
  return rows.reduce((last, row) => (shares[row] === OWN ? Math.max(last, ends[row]!) : last), 0);
}

type Columns = LanesModel['columns'];

interface ScheduledThread {
  delay: ThreadDelay<number>;
  /** Row of the thread's last call. */
  call: number;
}

function createAffectedTest(
  { threads, recordings, thread, types, type }: Columns,
  only: Only,
): (row: number) => boolean {
  const isOfThread = threads.map(({ recording, service }) => {
    const isOfNode = !only.node || only.node.includes(recordings[recording]!.node);
    return isOfNode && (!only.service || only.service.includes(service));
  });
  const isOfType = Array.from({ length: 256 }, (_, id) => getsLatency(types.get(id) ?? '', only.event_type));
  return (row) => isOfThread[thread[row]!]! && isOfType[type[row]!]!;
}
