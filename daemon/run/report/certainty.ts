/**
 * Judges, after a run, how likely it is that each event went to the call that it belongs to. The runner has to decide
 * before it knows what comes next. The complete sequences of recorded and made calls show more: how many calls are
 * missing or new, and where their sizes fit.
 */
import type { RunnerStatus } from '../control_lines.ts';
import type { DelayPlan } from '../plan/compile.ts';
import { findLikelyAlignment, NO_SIZE, type Sequences } from './likely_alignment.ts';
import { isMatched } from './match_kinds.ts';
import { buildNamePattern } from './names.ts';
import type { CallReport } from './read_report.ts';
import { type CallSequence, collectSequences, pairSequences } from './sequences.ts';

/**
 * Maximum number of files on each side that a file is compared with, when the files with the same name pattern are put
 * in order of first use.
 */
const ALIKE_MAX = 8;

/**
 * Minimum number of calls whose sizes differ from those of their events, and minimum share of these calls whose size is
 * that of an event of another such call.
 */
const REORDERED_MIN = 4;
const REORDERED_SHARE = 0.6;

export interface Certainty {
  /** How likely it is, for each event of the plan, that its call is the right one; 1 if nothing speaks against it. */
  byOrder: Float64Array;
  /**
   * How likely it is, for each event, that its call's file is the right one. It is below 1 only if the file's
   * name was generated and may stand for several files.
   */
  byName: Float64Array;
}

export function computeEventCertainty({ byOrder, byName }: Certainty, event: number): number {
  return byOrder[event]! * byName[event]!;
}

/**
 * Lowers the likelihoods where calls are made in another order. The sizes of such calls are not those of the events
 * that they got, but exactly those of other events, more often than by chance.
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
  // Syncs have no sizes, so they are judged by the writes around them.
  for (const [call, size] of made.entries()) if (size === NO_SIZE) likelihood[call]! *= 1 - found / writes;
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
    // If two calls got the same event, one of them may be the right one.
    for (const [place, at] of sequence.calls.entries())
      if (isMatched(calls.how[at]!)) byOrder[calls.event[at]!]! += likelihood[place]!;
  }
  const drawn = [...logs.keys()].filter(({ standsIn }) => standsIn);
  for (const alike of Map.groupBy(drawn, ({ file }) => buildNamePattern(file)).values())
    for (const [number, one] of alike.entries())
      for (const other of alike.slice(number + 1, number + 1 + ALIKE_MAX))
        if (mayBeExchanged(one, other)) compareNames(one, other);
  return { byOrder, byName };

  /**
   * Whether the roles of threads allow two files to be exchanged: the files share a role, or have calls of new roles.
   */
  function mayBeExchanged(one: CallSequence, other: CallSequence): boolean {
    return one.hasOtherRoles || other.hasOtherRoles || [...one.roles].some((role) => other.roles.has(role));
  }

  /** Lowers the certainty of two files according to how well the calls would fit if each file stood for the other. */
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
    // No call was assumed to be an event of the other file, so the band spreads the made calls evenly over the events.
    const perCall = sequences.planned.length / Math.max(sequences.made.length, 1);
    return { ...sequences, taken: sequences.taken.map((_, call) => Math.floor(call * perCall)) };
  }
}
