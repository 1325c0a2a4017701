/** Ids of the dictionaries: names, files and contexts are numbered separately. */

/**
 * An event never refers to an id after this many newer ids were assigned: an entry with such an old id gets a new one,
 * as a forgotten entry does. So a text may have several ids, and retention can determine which ids no kept segment
 * refers to.
 */
export const IDS_IN_USE_MAX = 32_768;

/** The next id of each dictionary. */
export interface NextIds {
  name: number;
  file: number;
  context: number;
}

export interface ContextText {
  transactionId: string | null;
  traceId: string | null;
  spanId: string | null;
}
