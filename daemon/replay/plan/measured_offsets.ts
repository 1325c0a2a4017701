/** Chooses which of the offsets that a fleet has measured are applied to the clocks of its nodes. */
import type { MeasuredClock } from '../../store/fleet_state.ts';
import type { AppliedOffsets, ClockOffsets } from './clock_offsets.ts';

/** An offset within so many uncertainties may be noise: to add it could part clocks that agree. */
const UNCERTAINTIES_MIN = 3n;

interface MeasuredOffsets extends AppliedOffsets {
  clockUncertaintiesNs: ClockOffsets;
}

/** Nodes without a measurement, or whose offset is too small to be sure of, have none. */
export function measuredOffsets(clocks: readonly MeasuredClock[]): MeasuredOffsets {
  const applied = clocks.filter(isSignificant);
  return {
    clockOffsetsNs: Object.fromEntries(applied.map(({ node, offsetNs }) => [node, Number(offsetNs)])),
    clockUncertaintiesNs: Object.fromEntries(applied.map(({ node, uncertaintyNs }) => [node, Number(uncertaintyNs)])),
  };
}

function isSignificant({ offsetNs, uncertaintyNs }: MeasuredClock): boolean {
  // A clock without a battery starts in 1970: no replay can be as long as that offset.
  if (uncertaintyNs === 0n || !Number.isSafeInteger(Number(offsetNs))) return false;
  const sizeNs = offsetNs < 0n ? -offsetNs : offsetNs;
  return sizeNs >= UNCERTAINTIES_MIN * uncertaintyNs;
}
