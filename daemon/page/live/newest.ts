/** The newest rows of the live view: events, losses, and notes about events that the page skipped. */

export const NEWEST_MAX = 200;

/** `late` marks an event that was recorded after events with a later start. */
export type RowKind = 'event' | 'late' | 'lost' | 'skipped';

export interface NewestRow {
  kind: RowKind;
  /** JSON of the event or the loss; plain words for events that were skipped. */
  text: string;
  /** Number of the row, counted from 0 over all rows that were ever added. */
  number: number;
}

export interface Newest {
  add(kind: RowKind, text: string): void;
  /** Number of rows that were ever added. */
  readonly total: number;
  /** Returns the rows; the newest row comes first. */
  rows(): NewestRow[];
}

export function createNewest(size = NEWEST_MAX): Newest {
  const kinds: RowKind[] = [];
  const texts: string[] = [];
  let total = 0;
  return {
    add(kind, text) {
      kinds[total % size] = kind;
      texts[total % size] = text;
      total++;
    },
    get total() {
      return total;
    },
    rows: () =>
      Array.from({ length: Math.min(total, size) }, (_, at) => {
        const number = total - 1 - at;
        return { number, kind: kinds[number % size]!, text: texts[number % size]! };
      }),
  };
}
