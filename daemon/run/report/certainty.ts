/**
 * Judges, when a run is over, whether the calls that got events are those that the events belong to. The runner has to
 * decide before it knows what comes next; the whole of both sequences says more: how many calls are missing or new, and
 * where their sizes fit.
 */
import type { RunnerStatus } from '../control_lines.ts';
import type { DelayPlan } from '../plan/compile.ts';
import { findLikelyAlignment, NO_SIZE, type Sequences } from './likely_alignment.ts';
import { isMatched } from './match_kinds.ts';
import { buildNamePattern } from './names.ts';
import type { CallReport } from './read_report.ts';
import { type CallSequence, collectSequences, pairSequences } from './sequences.ts';

/** Files with names of one pattern that a file is compared with, before and behind it in the order of their first use. */
const ALIKE_MAX = 8;

/** Calls that got events of other sizes, and the share of them that have sizes of others of these events. */
const REORDERED_MIN = 4;
const REORDERED_SHARE = 0.6;

export interface Certainty {
  /** How likely the call is the right one, by event of the plan; 1 where nothing is known against it. */
  byOrder: Float64Array;
  /** The same for the file of the call, if its name was generated and may stand for several of the incident. */
  byName: Float64Array;
}

export function computeEventCertainty({ byOrder, byName }: Certainty, event: number): number {
  return byOrder[event]! * byName[event]!;
}

/**
 * Lowers the likelihoods where calls are made in another order: their sizes are not those of the events that they got,
 * but exactly those of other events, more often than by chance.
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
  // Syncs are known by the writes around them.
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
    // If two calls got one event, one of them may be the right one.
    for (const [place, at] of sequence.calls.entries())
      if (isMatched(calls.how[at]!)) byOrder[calls.event[at]!]! += likelihood[place]!;
  }
  const drawn = [...logs.keys()].filter(({ standsIn }) => standsIn);
  for (const alike of Map.groupBy(drawn, ({ file }) => buildNamePattern(file)).values())
    for (const [number, one] of alike.entries())
      for (const other of alike.slice(number + 1, number + 1 + ALIKE_MAX))
        if (mayBeExchanged(one, other)) compareNames(one, other);
  return { byOrder, byName };

  /** Threads of other roles call on the other file, and on each file those that did in the incident. */
  function mayBeExchanged(one: CallSequence, other: CallSequence): boolean {
    return one.hasOtherRoles || other.hasOtherRoles || [...one.roles].some((role) => other.roles.has(role));
  }

  /** Whether the two files would fit as well, or better, if each stood for the other. */
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
    // Nothing was taken for another file's: the band follows the share of the calls that were made.
    const perCall = sequences.planned.length / Math.max(sequences.made.length, 1);
    return { ...sequences, taken: sequences.taken.map((_, call) => Math.floor(call * perCall)) };
  }
}
