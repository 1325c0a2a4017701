/** Chooses which of the offsets that a fleet has measured are applied to the clocks of its nodes. */
import type { MeasuredClock } from '../../store/fleet_state.ts';
import { APART_NS_MAX, type AppliedOffsets } from './clock_offsets.ts';

/** A double holds it exactly: no clock that is worth an offset is known worse. */
const UNCERTAINTY_NS_MAX = BigInt(Number.MAX_SAFE_INTEGER);
/** An offset within so many uncertainties may be noise: to add it could part clocks that agree. */
const UNCERTAINTIES_MIN = 3n;

interface MeasuredOffsets extends AppliedOffsets {
  clockUncertaintiesNs: Readonly<Record<string, number>>;
}

/** Nodes without a measurement, or whose offset is too small to be sure of, have none. */
export function measuredOffsets(clocks: readonly MeasuredClock[]): MeasuredOffsets {
  const applied = clocks.filter(isSignificant);
  return {
    clockOffsetsNs: Object.fromEntries(applied.map(({ node, offsetNs }) => [node, offsetNs])),
    clockUncertaintiesNs: Object.fromEntries(applied.map(({ node, uncertaintyNs }) => [node, Number(uncertaintyNs)])),
  };
}

function isSignificant({ offsetNs, uncertaintyNs }: MeasuredClock): boolean {
  if (uncertaintyNs === 0n || uncertaintyNs > UNCERTAINTY_NS_MAX) return false;
  const sizeNs = offsetNs < 0n ? -offsetNs : offsetNs;
  // Two of the largest are as far apart as offsets may be.
  return sizeNs <= APART_NS_MAX / 2n && sizeNs >= UNCERTAINTIES_MIN * uncertaintyNs;
}
