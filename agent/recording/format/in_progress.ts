/** Keys of `meta` under which a recording keeps calls and requests in progress. A key that has none is absent. */

/** The latest time at which a writer is known to have been recording, in nanoseconds since the epoch. */
export const ALIVE = 'alive_ns';

/** Calls and requests that have begun and not ended, encoded like a segment's data, the most important first. */
export const IN_PROGRESS = 'in_progress';

/** Key of the count of calls and requests that the list leaves out: a text, see `encodeUnlisted`. */
export const IN_PROGRESS_UNLISTED = 'in_progress_unlisted';

/** Some of the calls and requests that were in progress when earlier writers ended, encoded like `IN_PROGRESS`. */
export const UNFINISHED = 'unfinished';

/** Calls and requests that are counted, but not listed one by one. */
export interface Unlisted {
  count: number;
  /**
   * Number of unlisted calls that have a label, plus the number of unlisted requests: a request may carry labelled
   * data.
   */
  labelled: number;
  /** Start of the earliest unlisted call or request; 0 if there is none. */
  sinceNs: bigint;
}

export const NONE_UNLISTED: Unlisted = { count: 0, labelled: 0, sinceNs: 0n };

/** Stands for an unreadable list: at least one call or request, of which nothing is known. */
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

/** Returns undefined for a text that `encodeUnlisted` did not write; a missing text means that nothing is unlisted. */
export function parseUnlisted(text: unknown): Unlisted | undefined {
  if (text === undefined) return NONE_UNLISTED;
  const [, count, labelled, sinceNs] = /^(\d{1,10}) (\d{1,10}) (\d{1,20})$/.exec(String(text)) ?? [];
  if (sinceNs === undefined) return undefined;
  return { count: Number(count), labelled: Number(labelled), sinceNs: BigInt(sinceNs) };
}
