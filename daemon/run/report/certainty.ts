/**
 * Estimates, after a run, how likely it is that each event was given to the right call. The runner has to choose an
 * event for a call before it sees the later calls. The complete sequences show more: how many calls are missing or new,
 * and where the sizes match.
 */
import { findFirstPlace } from '../../base/binary_search.ts';
import type { RunnerStatus } from '../control_lines.ts';
import { SIZE_UNKNOWN } from '../format/plan_file.ts';
import type { DelayPlan } from '../plan/compile.ts';
import { findLikelyAlignment, NO_SIZE, type Sequences } from './likely_alignment.ts';
import { isMatched } from './match_kinds.ts';
import { buildNamePattern } from './names.ts';
import type { CallReport } from './read_report.ts';
import { type CallSequence, collectSequences, pairSequences, sortByReception } from './sequences.ts';

/**
 * A file is compared with at most this many earlier files and this many later files. These files have the same name
 * pattern and are in order of first use.
 */
const ALIKE_MAX = 8;

/**
 * Minimum number of calls with other sizes than their events, and minimum share of these calls that have the size of
 * another such call's event. From these values on, calls count as reordered.
 */
const REORDERED_MIN = 4;
const REORDERED_SHARE = 0.6;

export interface Certainty {
  /**
   * For each event of the plan, the likelihood (0 to 1) that the right call got the event, judged by the order and the
   * sizes of calls.
   */
  byOrder: Float64Array;
  /**
   * For each event, the likelihood (0 to 1) that the event's call was on the right file. The likelihood is below 1 only
   * if the file's name was generated and may stand for several files.
   */
  byName: Float64Array;
  /**
   * Events whose call is known only by its number on its file, although its thread called on several files in another
   * order than in the incident.
   */
  moved: ReadonlySet<number>;
}

export function computeEventCertainty({ byOrder, byName }: Certainty, event: number): number {
  return byOrder[event]! * byName[event]!;
}

/**
 * Lowers the likelihoods of calls that seem to be reordered. The size of such a call differs from that of its event,
 * but equals the size of another event more often than by chance.
 */
function doubtReordered({ planned, made, taken }: Sequences, likelihood: Float64Array): void {
  const free = new Map<number, number>();
  const isWrite = (call: number) => taken[call]! >= 0 && made[call] !== NO_SIZE && planned[taken[call]!] !== NO_SIZE;
  const others = [...taken.keys()].filter((call) => isWrite(call) && made[call] !== planned[taken[call]!]);
  for (const call of others) {
    const size = planned[taken[call]!]!;
    free.set(size, (free.get(size) ?? 0) + 1);
  }
  const sizes = [...free.keys()];
  const spread =
    sizes.reduce((a, b) => Math.max(a, b), 0) - sizes.reduce((a, b) => Math.min(a, b), Number.MAX_VALUE) + 1;
  let found = 0;
  for (const call of others) {
    const left = free.get(made[call]!) ?? 0;
    if (left === 0) continue;
    free.set(made[call]!, left - 1);
    found++;
  }
  const share = found / others.length;
  if (others.length < REORDERED_MIN || share < REORDERED_SHARE || share < (2 * sizes.length) / spread) return;
  const writes = [...taken.keys()].filter(isWrite).length;
  for (const call of others) likelihood[call]! *= 1 - share;
  // Syncs have no sizes, so the share of reordered writes decides for them.
  for (const [call, size] of made.entries()) if (size === NO_SIZE) likelihood[call]! *= 1 - found / writes;
}

/** Maximum share of a thread's calls that may be out of the recorded order. Above it, the order is another one. */
const MOVED_SHARE_MAX = 0.1;

/** Finds the events for `moved` of Certainty. */
function findMoved(plan: DelayPlan, calls: CallReport, sequences: readonly CallSequence[]): Set<number> {
  const sequenceOf = new Map<number, CallSequence>();
  for (const sequence of sequences) for (const event of sequence.events) sequenceOf.set(event, sequence);
  const toldBySize = new Set(sequences.flatMap(({ events }) => selectToldBySize(plan, events)));
  const threadOf = listThreads(plan);
  const moved = new Set<number>();
  for (const got of groupByThread(calls)) {
    // A pool's threads take each other's calls, so their order says nothing.
    const isOfOneThread = new Set(got.map((event) => threadOf[event])).size === 1;
    const fileCount = new Set(got.map((event) => sequenceOf.get(event))).size;
    if (!isOfOneThread || fileCount < 2 || computeMovedShare(plan, got) <= MOVED_SHARE_MAX) continue;
    for (const event of got) if (!toldBySize.has(event)) moved.add(event);
  }
  return moved;
}

/** Returns the events of the matched calls of each thread of the run, in the order in which the calls were received. */
function groupByThread(calls: CallReport): number[][] {
  const threads = new Map<number, number[]>();
  for (const at of sortByReception(calls)) {
    if (!isMatched(calls.how[at]!)) continue;
    const got = threads.get(calls.tid[at]!) ?? [];
    threads.set(calls.tid[at]!, got);
    got.push(calls.event[at]!);
  }
  return [...threads.values()];
}

/** Returns the recorded thread of each event. */
function listThreads({ slots, eventCount }: DelayPlan): Int32Array {
  const threads = new Int32Array(eventCount);
  for (const [slot, first] of slots.firstEvent.entries())
    threads.fill(slots.tid[slot]!, first, first + slots.eventCount[slot]!);
  return threads;
}

/**
 * Selects the events of a sequence whose size differs from that of the write before and behind it. A sync belongs to
 * the write before it.
 */
function selectToldBySize({ events: { size } }: DelayPlan, sequence: readonly number[]): number[] {
  const told = new Set<number>();
  const writes = sequence.filter((event) => size[event] !== SIZE_UNKNOWN);
  for (const [at, event] of writes.entries()) {
    const near = [writes[at - 1], writes[at + 1]].filter((other) => other !== undefined);
    if (near.length > 0 && near.every((other) => size[other] !== size[event])) told.add(event);
  }
  let write: number | undefined;
  for (const event of sequence) {
    if (size[event] !== SIZE_UNKNOWN) write = event;
    else if (write !== undefined && told.has(write)) told.add(event);
  }
  return [...told];
}

/** Returns the share of the events that are out of the recorded order: not in the longest ascending subsequence. */
function computeMovedShare({ events: { offset_ns } }: DelayPlan, got: readonly number[]): number {
  const isBefore = (one: number, other: number) =>
    offset_ns[one]! < offset_ns[other]! || (offset_ns[one] === offset_ns[other] && one < other);
  /** The last event of the best ascending subsequence of each length. */
  const last: number[] = [];
  for (const event of got) {
    const at = findFirstPlace(0, last.length, (length) => !isBefore(last[length]!, event));
    last[at] = event;
  }
  return 1 - last.length / got.length;
}

export function computeCertainty(
  plan: DelayPlan,
  calls: CallReport,
  said: RunnerStatus,
  isLeftOut: Uint8Array,
): Certainty {
  const byOrder = new Float64Array(plan.eventCount).fill(1);
  const byName = new Float64Array(plan.eventCount).fill(1);
  const sequences = collectSequences(plan, calls, said, isLeftOut);
  const logs = new Map<CallSequence, number>();
  for (const sequence of sequences) {
    if (!sequence.calls.some((at) => isMatched(calls.how[at]!))) continue;
    const sides = pairSequences(plan, calls, sequence, sequence);
    const { likelihood, log } = findLikelyAlignment(sides);
    logs.set(sequence, log);
    doubtReordered(sides, likelihood);
    const got = sequence.calls.filter((at) => isMatched(calls.how[at]!)).map((at) => calls.event[at]!);
    for (const event of got) byOrder[event] = 0;
    // If two calls got the same event, the likelihoods that either is the right call add up.
    for (const [place, at] of sequence.calls.entries())
      if (isMatched(calls.how[at]!)) byOrder[calls.event[at]!]! += likelihood[place]!;
  }
  const drawn = [...logs.keys()].filter(({ standsIn }) => standsIn);
  for (const alike of Map.groupBy(drawn, ({ file }) => buildNamePattern(file)).values())
    for (const [number, one] of alike.entries())
      for (const other of alike.slice(number + 1, number + 1 + ALIKE_MAX))
        if (mayBeExchanged(one, other)) compareNames(one, other);
  return { byOrder, byName, moved: findMoved(plan, calls, sequences) };

  /**
   * Returns whether the roles of threads allow that two files were exchanged. This is so if a role is common to both
   * files, or if threads of a new role call on one of the files.
   */
  function mayBeExchanged(one: CallSequence, other: CallSequence): boolean {
    return one.hasOtherRoles || other.hasOtherRoles || [...one.roles].some((role) => other.roles.has(role));
  }

  /**
   * Lowers `byName` for the events of two files, depending on how well the calls would fit if the two files were
   * exchanged.
   */
  function compareNames(one: CallSequence, other: CallSequence): void {
    const exchanged = [buildSide(one, other), buildSide(other, one)].reduce(
      (sum, pair) => sum + findLikelyAlignment(pair).log,
      0,
    );
    const likely = 1 / (1 + Math.exp(exchanged - logs.get(one)! - logs.get(other)!));
    for (const event of [...one.events, ...other.events]) byName[event] = Math.min(byName[event]!, likely);
  }

  function buildSide(recorded: CallSequence, made: CallSequence): Sequences {
    const sequences = pairSequences(plan, calls, recorded, made);
    // No call of one file was matched with an event of the other, so the band assumes that the calls are evenly spread
    // over the events.
    const perCall = sequences.planned.length / Math.max(sequences.made.length, 1);
    return { ...sequences, taken: sequences.taken.map((_, call) => Math.floor(call * perCall)) };
  }
}
