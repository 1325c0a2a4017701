/** Finds rows of events by their ids. */
import { parseEventId } from '../../../agent/recording/format/event_id.ts';
import { type EventColumns, exactValue } from './event_columns.ts';

export interface RowFinder {
  /** Row of the event; -1 if the columns do not have it. */
  find(eventId: string): number;
}

/**
 * A map of ids would take as long to make as all else of a large picture. Events that are played one after the other
 * are near each other, so that a search begins after what was found last.
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
      for (let step = 1; step <= count; step++) {
        const row = (last + step) % count;
        if (number[row] !== rounded || !isOf[thread[row]!]) continue;
        if (exactValue(columns, 'number', row) !== id.number) continue;
        last = row;
        return row;
      }
      return -1;
    },
  };
}
