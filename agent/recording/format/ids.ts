/** Ids of the dictionaries. Names, files and contexts are numbered separately. */

/**
 * The age limit of a dictionary id: new events never refer to an id after this many newer ids were assigned. An entry
 * that is still in use then gets a new id, so a text may have several ids. The limit lets retention determine which ids
 * the kept segments no longer use.
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
