/** Finds rows of events by their ids. */
import { parseEventId } from '../../base/event_id.ts';
import { type EventColumns, findFirstAtLeast, getExactValue } from './event_columns.ts';

export interface RowFinder {
  /** Returns the row of the event; -1 if the columns do not have the event. */
  find(eventId: string): number;
}

/** Number of rows after the last found row that are tried first, because events are played nearly in order of rows. */
const NEAR = 16;

/**
 * Creates a finder without a map of ids, which would take as long to build as the rest of a large picture. Event
 * numbers mostly increase with time, but each recording numbers its events separately. So the search starts at the
 * expected row of the number and continues in both directions.
 */
export function createRowFinder(columns: EventColumns): RowFinder {
  const { count, number, thread, threads, recordings } = columns;
  let last = -1;
  return {
    find(eventId) {
      const id = parseEventId(eventId);
      if (!id) return -1;
      const isOf = threads.map(({ recording }) => recordings[recording]!.recordingId === id.recordingId);
      const rounded = Number(id.number);
      const isIt = (row: number) =>
        number[row] === rounded && isOf[thread[row]!]! && getExactValue(columns, 'number', row) === id.number;
      const rememberRow = (row: number) => {
        last = row;
        return row;
      };
      for (let row = last + 1; row <= last + NEAR && row < count; row++) if (isIt(row)) return rememberRow(row);
      const guess = findFirstAtLeast(number, rounded);
      for (let before = guess - 1, after = guess; before >= 0 || after < count; before--, after++) {
        if (after < count && isIt(after)) return rememberRow(after);
        if (before >= 0 && isIt(before)) return rememberRow(before);
      }
      return -1;
    },
  };
}
