/** Names come from other people's programs: none is long, and none moves the cursor of a terminal that shows it. */
export const NAME_LENGTH_MAX = 255;

/** Surrogates by themselves too: the cut may leave one, and the recording's UTF-8 has no place for it. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}]/gu;

/** Maybe empty. Cut first, so that a long text costs no more than a short one. */
export function cleanName(text: string): string {
  return text.slice(0, NAME_LENGTH_MAX).replace(UNPRINTABLE, '');
}
