/** Keys of `meta` under which a recording stores calls and requests in progress. A key without a value is absent. */

/** The latest time at which a writer is known to have been recording, in nanoseconds since the epoch. */
export const ALIVE = 'alive_ns';

/** Calls and requests that have begun but not ended, encoded like a segment's data, the most important first. */
export const IN_PROGRESS = 'in_progress';

/** Number of calls and requests in progress that the list omits, as a text of `encodeUnlisted`. */
export const IN_PROGRESS_UNLISTED = 'in_progress_unlisted';

/**
 * Calls and requests that were still in progress when earlier writers ended, encoded like `IN_PROGRESS`. Only the
 * newest are kept.
 */
export const UNFINISHED = 'unfinished';

/** Calls and requests that are counted, but not listed one by one. */
export interface Unlisted {
  count: number;
  /**
   * Number of unlisted calls with a label, plus the number of all unlisted requests, because a request may carry
   * labelled data.
   */
  labelled: number;
  /** Start of the earliest unlisted call or request; 0 if there is none. */
  sinceNs: bigint;
}

export const NONE_UNLISTED: Unlisted = { count: 0, labelled: 0, sinceNs: 0n };

/** The replacement for an unreadable list: at least one call or request, with unknown label and start. */
export const UNKNOWN_UNLISTED: Unlisted = { count: 1, labelled: 1, sinceNs: 0n };

export function joinUnlisted(one: Unlisted, other: Unlisted): Unlisted {
  if (one.count === 0 || other.count === 0) return one.count === 0 ? other : one;
  return {
    count: one.count + other.count,
    labelled: one.labelled + other.labelled,
    sinceNs: one.sinceNs < other.sinceNs ? one.sinceNs : other.sinceNs,
  };
}

export function encodeUnlisted({ count, labelled, sinceNs }: Unlisted): string {
  return `${count} ${labelled} ${sinceNs}`;
}

/**
 * Parses a text of `encodeUnlisted`. A missing text means that nothing is unlisted. Returns undefined for any other
 * text.
 */
export function parseUnlisted(text: unknown): Unlisted | undefined {
  if (text === undefined) return NONE_UNLISTED;
  const [, count, labelled, sinceNs] = /^(\d{1,10}) (\d{1,10}) (\d{1,20})$/.exec(String(text)) ?? [];
  if (sinceNs === undefined) return undefined;
  return { count: Number(count), labelled: Number(labelled), sinceNs: BigInt(sinceNs) };
}
