/**
 * The replay of a transaction within its picture: the playhead, the last played event, and sentences about that event.
 */
import { useCallback, useEffect, useMemo, useRef } from 'preact/hooks';
import { findFirstAtLeast, getErrorName, getWhat, typeName } from '../../model/columns/event_columns.ts';
import { createRowFinder } from '../../model/columns/row_finder.ts';
import { callName, type LanesModel } from '../../model/lanes/model.ts';
import { formatShortDuration } from '../../model/wording/exact_times.ts';
import { formatName } from '../../model/wording/names.ts';
import type { LinkedClockOffsets } from '../link/clock_offsets.ts';
import { createPace } from '../replay/pace.ts';
import type { NewestEvent } from '../replay/replay.ts';
import { computeSchedule, type RowSchedule } from '../replay/schedule.ts';
import { usePage } from './context.ts';
import { type ShownReplay, useReplay } from './use_replay.ts';

/** Minimum time between two sentences, because the next sentence interrupts the one that is being spoken. */
const SAID_EVERY_MS = 1000;

export interface PlayedReplay extends ShownReplay {
  /** Offset of the playhead on the model's time line at `nowMs`; null without a session. */
  playheadNs: (nowMs: number) => number | null;
  /** Row of the event that was played last; -1 before the first event. */
  playedRow: () => number;
  /** Makes a screen reader describe the event that was played last. */
  sayPlayed: () => void;
  /** Times at which events are played; null if they are not needed. */
  schedule: RowSchedule | null;
}

export function usePlayed(transactionId: string, model: LanesModel, offsets: LinkedClockOffsets): PlayedReplay {
  const { announce } = usePage();
  const rows = useMemo(() => createRowFinder(model.columns), [model]);
  const last = useRef<NewestEvent | null>(null);
  const place = useRef<PlayedPlace>(NOTHING_PLAYED);
  const find = (played: NewestEvent | null) => {
    last.current = played;
    place.current = played ? { row: rows.find(played.eventId), offsetNs: played.offsetNs } : NOTHING_PLAYED;
  };
  // In another picture the event has another row, so the row is searched again.
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
    () => (isNeeded ? computeSchedule(model, settings!) : null),
    [model, isNeeded, JSON.stringify(settings)],
  );
  const isAligned = offsets.size > 0;
  const playheadNs = useCallback(
    (nowMs: number) => {
      if (!replay?.session) return null;
      const positionNs = replay.playhead.computePositionNs(nowMs);
      if (isFast && schedule && replay.session.state === 'playing')
        place.current = findPlayedPlace(schedule, positionNs);
      return computePlayheadNs(model, place.current, positionNs, isAligned);
    },
    [replay, model, schedule, isFast, isAligned],
  );
  const playedRow = useCallback(() => place.current.row, []);
  /** The latest model: a sentence may be spoken later, and the row then belongs to the model of that time. */
  const latest = useRef(model);
  latest.current = model;
  const pace = useMemo(() => createPace(SAID_EVERY_MS), []);
  useEffect(() => pace.cancel, [pace]);
  const sayPlayed = useCallback(
    () => pace.run(() => announce(describePlayed(latest.current, place.current.row))),
    [pace, announce],
  );
  return { ...shown, playheadNs, playedRow, sayPlayed, schedule };
}

/* Finds the position of a replay's clock in the recorded picture, and the event that was played last. */

interface PlayedPlace {
  /** Row of the event that was played last; -1 before the first event, or if the event is not in the picture. */
  row: number;
  /** Start of the event in `row` on the replay's own time line, in nanoseconds. */
  offsetNs: number;
}

const NOTHING_PLAYED: PlayedPlace = { row: -1, offsetNs: 0 };

/**
 * Finds the event that was played last at a position. This is needed while frames contain positions instead of events.
 */
export function findPlayedPlace({ rows, starts }: RowSchedule, positionNs: number): PlayedPlace {
  // Offsets are whole nanoseconds, and an event that starts exactly at the position has been played.
  const place = findFirstAtLeast(starts, Math.floor(positionNs) + 1) - 1;
  return place < 0 ? NOTHING_PLAYED : { row: rows[place]!, offsetNs: starts[place]! };
}

/**
 * Computes the offset of the playhead on the model's time line. Extra latency and shortened gaps make the replay's
 * time line differ from the model's, so the offset counts from the event that was played last, and stops at the next
 * event. With aligned clocks, rows are not in order of start, so no next event limits the offset.
 */
function computePlayheadNs(
  { starts, firstNs }: Pick<LanesModel, 'starts' | 'firstNs'>,
  played: PlayedPlace,
  positionNs: number,
  isAligned: boolean,
): number {
  if (played.row < 0 || positionNs < played.offsetNs) return firstNs + positionNs;
  const startNs = starts[played.row]!;
  const next = isAligned ? starts.length : findFirstAtLeast(starts, startNs + 1);
  const limitNs = next < starts.length ? starts[next]! : Number.POSITIVE_INFINITY;
  return Math.min(startNs + positionNs - played.offsetNs, limitNs);
}

/** Describes an event for a screen reader: `sys_write pwrite64 of /srv/db/wal, 64.0 µs, starts +2.05 ms`. */
function describePlayed({ columns, starts, firstNs }: LanesModel, row: number): string {
  if (row < 0) return 'Before the first event.';
  const { target } = getWhat(columns, row);
  const type = typeName(columns, row);
  const call = callName(columns, row);
  const error = getErrorName(columns, row);
  const parts = [
    `${type}${call === type ? '' : ` ${formatName(call)}`}${target === null ? '' : ` of ${formatName(target)}`}`,
    formatShortDuration(columns.duration[row]!),
    `starts +${formatShortDuration(starts[row]! - firstNs)}`,
    ...(error === null ? [] : [`failed with ${error}`]),
  ];
  return `${parts.join(', ')}.`;
}
