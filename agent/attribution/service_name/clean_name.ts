/** Names come from untrusted programs: they are shortened, and cannot move the cursor of a terminal that shows them. */
export const NAME_LENGTH_MAX = 255;

/** Lone surrogates are included: the cut may leave one, and UTF-8 in the recording cannot encode it. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}]/gu;

/** The result may be empty. The text is cut first, so that a long one costs no more than a short one. */
export function cleanName(text: string): string {
  return text.slice(0, NAME_LENGTH_MAX).replace(UNPRINTABLE, '');
}
