/** How the owner of an event is known, and how sure that is, in words. */
import { QUALITY_MEANINGS, SOURCE_MEANINGS } from '../../../bpf/schema/owner.ts';
import type { EventOwner } from '../columns/event_columns.ts';

export interface AttributionText {
  /** What named the owner. */
  source: string;
  /** How sure it is; null where nothing named an owner. */
  quality: string | null;
  /** Whether the event may be the work of others too. */
  isDoubtful: boolean;
}

const DOUBTFUL: readonly string[] = ['shared', 'ambiguous'];

/** A newer daemon may have words that are not known here: they stand for themselves. */
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

/** The meanings are written for pages with marked-up code. */
function formatMeaning(meanings: Readonly<Record<string, string>>, word: string): string {
  return Object.hasOwn(meanings, word) ? meanings[word]!.replaceAll('`', '') : word;
}
