/**
 * The events of compared transactions, kept until all events of each transaction have been added. An event takes 36
 * bytes, and the events of one transaction form a chain:
 *
 *   word    0       1        2 3     4 5        6 7       8
 *           next    profile  start   duration   queue     thread      times have 64 bits, the low word first
 *
 * A comparison keeps at most KEPT_EVENTS_MAX events. They take 180 MB, plus 8 bytes for each transaction. A request
 * that carries data of several transactions is kept and counted for each of them.
 */
const WORDS_AN_EVENT = 9;
const PAGE_BITS = 14;
const PAGE_MASK = 2 ** PAGE_BITS - 1;
const NONE = -1;

/** Reason why an event is kept for a transaction. */
export const ROLES = {
  /** Another task's request that carries the transaction's data. */
  carried: 0,
  /** A thread of the transaction caused the event, and any data that it carries is the transaction's. */
  own: 1,
  /** A task of the transaction queued the request, which may carry data of others. */
  queued: 2,
} as const;
export type EventRole = (typeof ROLES)[keyof typeof ROLES];

const ROLE_BITS = 2;
const ROLE_MASK = 2 ** ROLE_BITS - 1;
const WORD = 2 ** 32;

/** The events of one transaction. Arrays may be longer than `length`. */
export interface EventRows {
  length: number;
  profiles: Uint32Array;
  roles: Uint8Array;
  /** Nanoseconds from the start of the transaction; exact below 2^53. */
  starts: Float64Array;
  ends: Float64Array;
  /** Time at which a device got the request; the start if that time is unknown. */
  sent: Float64Array;
  /** Thread ids. */
  threads: Uint32Array;
  /** Index of each event among all kept events. */
  places: Uint32Array;
}

export interface ExactTimes {
  start: bigint;
  sent: bigint;
  end: bigint;
}

/** Times of an event as words; the start is relative to the transaction's start, and may be negative. */
export interface TimeWords {
  startLow: number;
  startHigh: number;
  durationLow: number;
  durationHigh: number;
  queueLow: number;
  queueHigh: number;
}

export interface KeptEvents {
  readonly count: number;
  add(transaction: number, profile: number, role: EventRole, times: TimeWords, thread: number): void;
  /** Fills `rows` with the events of a transaction, in the order in which they were added. */
  read(transaction: number, rows: EventRows): void;
  readExactTimes(place: number): ExactTimes;
}

export function keepEvents(transactions: number): KeptEvents {
  const last = new Int32Array(transactions).fill(NONE);
  const counts = new Uint32Array(transactions);
  const pages: Uint32Array[] = [];
  let count = 0;

  return {
    get count() {
      return count;
    },
    add(transaction, profile, role, times, thread) {
      const { startLow, startHigh, durationLow, durationHigh, queueLow, queueHigh } = times;
      if ((count & PAGE_MASK) === 0) pages.push(new Uint32Array(WORDS_AN_EVENT * 2 ** PAGE_BITS));
      const page = pages[count >>> PAGE_BITS]!;
      const at = (count & PAGE_MASK) * WORDS_AN_EVENT;
      page[at] = last[transaction]!;
      page[at + 1] = (profile << ROLE_BITS) | role;
      page[at + 2] = startLow;
      page[at + 3] = startHigh;
      page[at + 4] = durationLow;
      page[at + 5] = durationHigh;
      page[at + 6] = queueLow;
      page[at + 7] = queueHigh;
      page[at + 8] = thread;
      last[transaction] = count++;
      counts[transaction]!++;
    },
    read(transaction, rows) {
      rows.length = counts[transaction]!;
      if (rows.profiles.length < rows.length)
        Object.assign(rows, createEventRows(rows.length * 2), { length: rows.length });
      let place = last[transaction]!;
      for (let row = rows.length - 1; row >= 0; row--) {
        const page = pages[place >>> PAGE_BITS]!;
        const at = (place & PAGE_MASK) * WORDS_AN_EVENT;
        const start = (page[at + 3]! | 0) * WORD + page[at + 2]!;
        const duration = page[at + 5]! * WORD + page[at + 4]!;
        rows.profiles[row] = page[at + 1]! >>> ROLE_BITS;
        rows.roles[row] = page[at + 1]! & ROLE_MASK;
        rows.starts[row] = start;
        rows.ends[row] = start + duration;
        rows.sent[row] = start + Math.min(page[at + 7]! * WORD + page[at + 6]!, duration);
        rows.threads[row] = page[at + 8]!;
        rows.places[row] = place;
        place = page[at]!;
      }
    },
    readExactTimes(place) {
      const page = pages[place >>> PAGE_BITS]!;
      const at = (place & PAGE_MASK) * WORDS_AN_EVENT;
      const joinWords = (low: number) => (BigInt(page[low + 1]!) << 32n) | BigInt(page[low]!);
      const start = BigInt.asIntN(64, joinWords(at + 2));
      const duration = joinWords(at + 4);
      const queue = joinWords(at + 6);
      return { start, sent: start + (queue < duration ? queue : duration), end: start + duration };
    },
  };
}

export function createEventRows(length: number): EventRows {
  return {
    length: 0,
    profiles: new Uint32Array(length),
    roles: new Uint8Array(length),
    starts: new Float64Array(length),
    ends: new Float64Array(length),
    sent: new Float64Array(length),
    threads: new Uint32Array(length),
    places: new Uint32Array(length),
  };
}
