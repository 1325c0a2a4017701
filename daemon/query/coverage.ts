/** What the recording is missing in a window, in the words of the API. */
import type { Loss } from '../store/store.ts';

export interface Coverage {
  lost: number;
  gaps: { from: bigint; to: bigint; lost: number; cause: string }[];
}

const byStart = (a: Loss, b: Loss) => (a.fromNs < b.fromNs ? -1 : a.fromNs > b.fromNs ? 1 : 0);

export function coverageOf(losses: readonly Loss[]): Coverage {
  const gaps: Coverage['gaps'] = [];
  for (const { fromNs, toNs, lost, cause } of losses.toSorted(byStart)) {
    const open = gaps.findLast((gap) => gap.cause === cause);
    // An agent under load notes a loss at every drain: gaps that touch are one.
    if (open && fromNs <= open.to) {
      open.to = toNs > open.to ? toNs : open.to;
      open.lost += lost;
    } else gaps.push({ from: fromNs, to: toNs, lost, cause });
  }
  return { lost: losses.reduce((sum, { lost }) => sum + lost, 0), gaps };
}
