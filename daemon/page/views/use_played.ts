/** The replay of a transaction in its picture: the playhead, the event that it is at, and how they are said. */
import { useCallback, useEffect, useMemo, useRef } from 'preact/hooks';
import { createRowFinder } from '../columns/row_finder.ts';
import type { LanesModel } from '../lanes/model.ts';
import type { ClockOffsets } from '../link/clock_offsets.ts';
import { createPace } from '../replay/pace.ts';
import type { Played } from '../replay/replay.ts';
import { type Schedule, scheduleOf } from '../replay/schedule.ts';
import { usePage } from './context.ts';
import { NOTHING_PLAYED, type PlayedPlace, placeIn, placeOf, playedSentence } from './played_place.ts';
import { type ShownReplay, useReplay } from './use_replay.ts';

/** More sentences than one a second are not heard to their end. */
const SAID_EVERY_MS = 1000;

export interface PlayedReplay extends ShownReplay {
  /** Offset of the playhead on the model's time line; null without a session. */
  playheadNs: (nowMs: number) => number | null;
  /** Row of the event that was played last; -1 before the first. */
  playedRow: () => number;
  /** Says the event that was played last. */
  sayPlayed: () => void;
  /** When events are played; null where nothing needs it. */
  schedule: Schedule | null;
}

export function usePlayed(transactionId: string, model: LanesModel, offsets: ClockOffsets): PlayedReplay {
  const { announce } = usePage();
  const rows = useMemo(() => createRowFinder(model.columns), [model]);
  const last = useRef<Played | null>(null);
  const place = useRef<PlayedPlace>(NOTHING_PLAYED);
  const find = (played: Played | null) => {
    last.current = played;
    place.current = played ? { row: rows.find(played.eventId), offsetNs: played.offsetNs } : NOTHING_PLAYED;
  };
  // Another picture of the same events has other rows.
  useMemo(() => find(last.current), [rows]);
  const shown = useReplay(transactionId, offsets, find);
  const { replay } = shown;
  const session = replay?.session ?? null;
  const isFast = replay?.isFast ?? false;
  const isNeeded = session !== null && (isFast || session.max_gap_ns !== null);
  const settings = session && {
    latencyNs: Number(session.extra_latency_ns),
    only: session.only,
    maxGapNs: session.max_gap_ns === null ? null : Number(session.max_gap_ns),
  };
  const schedule = useMemo(
    () => (isNeeded ? scheduleOf(model, settings!) : null),
    [model, isNeeded, JSON.stringify(settings)],
  );
  const isAligned = offsets.size > 0;
  const playheadNs = useCallback(
    (nowMs: number) => {
      if (!replay?.session) return null;
      const positionNs = replay.playhead.at(nowMs);
      if (isFast && schedule && replay.session.state === 'playing') place.current = placeIn(schedule, positionNs);
      return placeOf(model, place.current, positionNs, isAligned);
    },
    [replay, model, schedule, isFast, isAligned],
  );
  const playedRow = useCallback(() => place.current.row, []);
  /** The row is one of this model, also where the sentence waits for its turn. */
  const latest = useRef(model);
  latest.current = model;
  const pace = useMemo(() => createPace(SAID_EVERY_MS), []);
  useEffect(() => pace.cancel, [pace]);
  const sayPlayed = useCallback(
    () => pace.run(() => announce(playedSentence(latest.current, place.current.row))),
    [pace, announce],
  );
  return { ...shown, playheadNs, playedRow, sayPlayed, schedule };
}
