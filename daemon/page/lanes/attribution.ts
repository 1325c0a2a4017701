/** Describes how the recorder determined the owner of an event, and how certain the owner is. */
import { QUALITY_MEANINGS, SOURCE_MEANINGS } from '../../../bpf/schema/owner.ts';
import type { EventOwner } from '../../model/columns/event_columns.ts';

export interface AttributionText {
  /** Sentence on how the owner was determined. */
  source: string;
  /** Sentence on how certain the owner is; null if the event has no owner. */
  quality: string | null;
  /** Whether the event may also be the work of other owners. */
  isDoubtful: boolean;
}

const DOUBTFUL: readonly string[] = ['shared', 'ambiguous'];

/**
 * Puts the attribution into words. A source or quality that this page does not know, from a newer daemon, is shown as
 * it is.
 */
export function describeAttribution({ source, quality }: EventOwner): AttributionText {
  const bySource = formatMeaning(SOURCE_MEANINGS, source);
  const ofQuality = formatMeaning(QUALITY_MEANINGS, quality);
  if (source === 'none') return { source: `No owner is known: ${bySource}.`, quality: null, isDoubtful: false };
  return {
    source: `Its owner is known by ${bySource}.`,
    quality: ofQuality === quality ? `It is ${quality}.` : `It is ${quality}: ${ofQuality}.`,
    isDoubtful: DOUBTFUL.includes(quality),
  };
}

/**
 * Returns the meaning of a word, or the word itself if its meaning is unknown. Backticks are removed, because this
 * text is not Markdown.
 */
function formatMeaning(meanings: Readonly<Record<string, string>>, word: string): string {
  return Object.hasOwn(meanings, word) ? meanings[word]!.replaceAll('`', '') : word;
}
