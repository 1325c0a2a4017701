/** Where a recording says what is in progress: keys of `meta`, whose values are absent when there is nothing. */

/** The latest time at which a writer is known to have been recording, in nanoseconds since the epoch. */
export const ALIVE = 'alive_ns';

/** A segment's data, of calls and requests that have begun and not ended: the most important first. */
export const IN_PROGRESS = 'in_progress';

/** Key of the count of calls and requests that the list leaves out: a text, see `encodeUnlisted`. */
export const IN_PROGRESS_UNLISTED = 'in_progress_unlisted';

/** The same as IN_PROGRESS, of some that were in progress when earlier writers ended. */
export const UNFINISHED = 'unfinished';

/** Calls and requests of which only this is known. */
export interface Unlisted {
  count: number;
  /** How many of them have a label, or are requests, which may carry data with one. */
  labelled: number;
  /** When the first of them began; 0 if there are none. */
  sinceNs: bigint;
}

export const NONE_UNLISTED: Unlisted = { count: 0, labelled: 0, sinceNs: 0n };

/** Something is or was in progress, and it is not known what. */
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

/** Returns undefined for what `encodeUnlisted` did not write; `undefined` stands for nothing. */
export function parseUnlisted(text: unknown): Unlisted | undefined {
  if (text === undefined) return NONE_UNLISTED;
  const [, count, labelled, sinceNs] = /^(\d{1,10}) (\d{1,10}) (\d{1,20})$/.exec(String(text)) ?? [];
  if (sinceNs === undefined) return undefined;
  return { count: Number(count), labelled: Number(labelled), sinceNs: BigInt(sinceNs) };
}
