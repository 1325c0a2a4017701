/** Keeps two answers together for a comparison. */
import { useEffect, useRef } from 'preact/hooks';
import type { ReceivedCoverage } from '../../../contract/received.ts';
import { usePage } from '../context.ts';
import type { Answer } from '../use_answer.ts';

export interface Pair<Body> {
  a: Body;
  b: Body;
}

/**
 * Returns the newest pair of answers that belong together, because a new answer must not be compared with an old one.
 */
export function usePair<Body>(a: Answer<Body>, b: Answer<Body>): Pair<Body> | null {
  const last = useRef<Pair<Body> | null>(null);
  if (a.failure || b.failure) return null;
  if (a.body && b.body && !a.isOld && !b.isOld) last.current = { a: a.body, b: b.body };
  return last.current;
}

/** Passes the coverage of side A to the top bar if side A lacks events, and otherwise the coverage of side B. */
export function usePairCoverage(a: ReceivedCoverage | undefined, b: ReceivedCoverage | undefined): void {
  const { setCoverage } = usePage();
  useEffect(() => setCoverage((a?.complete === false ? a : b) ?? a ?? null), [a, b, setCoverage]);
}

export function OldPair() {
  return <p class="quiet">What is below is of those before, until the new ones are read.</p>;
}
