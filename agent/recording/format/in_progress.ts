/** Where a recording says what is in progress: keys of `meta`, whose values are absent when there is nothing. */

/** The latest time at which a writer is known to have been recording, in nanoseconds since the epoch. */
export const ALIVE = 'alive_ns';

/** A segment's data, of calls and requests that have begun and not ended: those that began first. */
export const IN_PROGRESS = 'in_progress';

/** How many others there are, which began later. */
export const IN_PROGRESS_UNLISTED = 'in_progress_unlisted';

/** The same as IN_PROGRESS, of those that were in progress when earlier writers ended. */
export const UNFINISHED = 'unfinished';
