/** Describes how the owner of an event is known, and how certain that is. */
import { QUALITY_MEANINGS, SOURCE_MEANINGS } from '../../../bpf/schema/owner.ts';
import type { EventOwner } from '../../model/columns/event_columns.ts';

export interface AttributionText {
  /** Sentence that says how the owner is known. */
  source: string;
  /** Sentence that says how certain the owner is; null if nothing named an owner. */
  quality: string | null;
  /** Whether the event may also be the work of other owners. */
  isDoubtful: boolean;
}

const DOUBTFUL: readonly string[] = ['shared', 'ambiguous'];

/** Puts the attribution into words. A word of a newer daemon that is not known here is shown as it is. */
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

/** Removes the backticks, which the meanings contain for pages that mark up code. */
function formatMeaning(meanings: Readonly<Record<string, string>>, word: string): string {
  return Object.hasOwn(meanings, word) ? meanings[word]!.replaceAll('`', '') : word;
}
