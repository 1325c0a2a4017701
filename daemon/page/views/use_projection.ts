/**
 * The effect of a latency on a transaction. The page computes the effect while the user chooses the latency; the
 * daemon computes it when the choice stops changing.
 */

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { WhatIfAnswer } from '../../contract/received.ts';
import type { Failure } from '../api/failure.ts';
import type { LinkedClockOffsets } from '../link/clock_offsets.ts';
import { buildOnlyFilter } from '../replay/settings_in_link.ts';
import {
  computeProjection,
  isSameProjection,
  type ProjectedCurve,
  type Projection,
  toExactCurve,
} from '../what_if/curve.ts';
import { buildAssumption, WHAT_IF } from '../what_if/question.ts';
import { usePage } from './context.ts';
import { useAnswer } from './use_answer.ts';

/** Time without changes after which the daemon is asked about a choice. */
const REST_MS = 150;

export interface ProjectionChoice {
  latencyNs: bigint;
  /** Deadline of the caller; null if the caller waits without a deadline. */
  timeoutNs: bigint | null;
}

/** Returns the present choice, which is stored in the link when it stops changing. */
export function useChosen(): [chosen: ProjectionChoice, choose: (change: Partial<ProjectionChoice>) => void] {
  const { link, go } = usePage();
  const inLink = { latencyNs: link.latency ?? 0n, timeoutNs: link.timeout };
  const [chosen, setChosen] = useState<ProjectionChoice>(inLink);
  const sent = useRef<ProjectionChoice>(inLink);
  useEffect(() => {
    // The Back button or the session may change the link. A change that this function stored in the link itself is
    // ignored.
    if (isSame(sent.current, inLink)) return;
    sent.current = inLink;
    setChosen(inLink);
  }, [link.latency, link.timeout]);
  useEffect(() => {
    if (isSame(sent.current, chosen)) return undefined;
    const timer = setTimeout(() => {
      sent.current = chosen;
      go({ latency: chosen.latencyNs === 0n ? null : chosen.latencyNs, timeout: chosen.timeoutNs }, false);
    }, REST_MS);
    return () => clearTimeout(timer);
  }, [chosen]);
  return [chosen, (change) => setChosen((before) => ({ ...before, ...change }))];
}

function isSame(one: ProjectionChoice, other: ProjectionChoice): boolean {
  return one.latencyNs === other.latencyNs && one.timeoutNs === other.timeoutNs;
}

export interface ShownProjection {
  /** The projected times; null until the daemon has answered once. */
  projection: Projection | null;
  /** The daemon's answer to the present choice; null until this answer has arrived. */
  answer: WhatIfAnswer | null;
  /** Number of events that get the latency, and number of all events; null if unknown. */
  affected: Pick<WhatIfAnswer, 'affected_count' | 'event_count'> | null;
  /** Whether the daemon's answer differs from the projection that the page computed. */
  isOther: boolean;
  failure: Failure | null;
  askAgain: () => void;
}

interface ProjectionAnswer {
  chosen: ProjectionChoice;
  /** Key of everything on which the curve depends. */
  curveKey: string;
  answer: WhatIfAnswer;
}

/** Computes the projection. `isReady` is false while events are being read, because they are more urgent. */
export function useProjection(
  transactionId: string,
  offsets: LinkedClockOffsets,
  chosen: ProjectionChoice,
  isReady: boolean,
): ShownProjection {
  const { daemon, link } = usePage();
  const only = buildOnlyFilter(link);
  const curveKey = JSON.stringify([transactionId, only, [...offsets].map(([node, ns]) => [node, String(ns)])]);
  const latencyNs = link.latency ?? 0n;
  const timeoutNs = link.timeout;
  const { body, failure, askAgain } = useAnswer<ProjectionAnswer>(
    isReady ? `${curveKey} ${latencyNs} ${timeoutNs}` : null,
    async (signal) => {
      const body = {
        transaction_id: transactionId,
        extra_latency_ns: latencyNs,
        timeout_ns: timeoutNs,
        limit: 0,
        ...buildAssumption(only, offsets),
      };
      const answer = await daemon.askJson<WhatIfAnswer>(WHAT_IF, { method: 'POST', body, signal });
      return { chosen: { latencyNs, timeoutNs }, curveKey, answer };
    },
  );
  const known = useRef<{ key: string; curve: ProjectedCurve } | null>(null);
  /**
   * Stores the curve of a new answer. True if the answer differs from the result that the page computed with the
   * previous curve.
   */
  const isOther = useMemo(() => {
    if (!body) return false;
    const own = known.current?.key === body.curveKey ? known.current.curve : null;
    const isNew =
      own !== null && !isSameProjection(own && computeChosenProjection(own, body.chosen), toProjection(body.answer));
    if (own === null || isNew) known.current = { key: body.curveKey, curve: toExactCurve(body.answer.curve) };
    return isNew;
  }, [body]);
  const curve = known.current?.key === curveKey ? known.current.curve : null;
  const isOfCurve = body?.curveKey === curveKey;
  const answer = body && isOfCurve && isSame(body.chosen, chosen) ? body.answer : null;
  return {
    projection: answer ? toProjection(answer) : curve && computeChosenProjection(curve, chosen),
    affected: isOfCurve ? body.answer : null,
    answer,
    isOther: isOther && answer !== null,
    failure,
    askAgain,
  };
}

const computeChosenProjection = (curve: ProjectedCurve, chosen: ProjectionChoice) =>
  computeProjection(curve, chosen.latencyNs, chosen.timeoutNs);

function toProjection({ duration_ns, replay_duration_ns, times_out, smallest_latency_ns }: WhatIfAnswer): Projection {
  return {
    recordedNs: BigInt(duration_ns),
    durationNs: BigInt(replay_duration_ns),
    timesOut: times_out,
    smallestNs: smallest_latency_ns === null ? null : BigInt(smallest_latency_ns),
  };
}
