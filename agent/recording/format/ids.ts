/** Ids of dictionaries: names, files and contexts, each with numbers of its own. */

/**
 * An event never has an id that so many newer ones exist of: what is older gets another, as it does when it was
 * forgotten. Readers know that a text may have several ids, and retention knows which ids no kept segment can hold.
 */
export const IDS_IN_USE_MAX = 32_768;

/** Dictionary ids that come next. */
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
