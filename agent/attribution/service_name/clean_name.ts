/** Names come from untrusted programs: they are shortened, and stripped of what could move a terminal's cursor. */
export const NAME_LENGTH_MAX = 255;

/** Lone surrogates are included: the cut may leave one, and the recording's UTF-8 has no encoding for it. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}]/gu;

/** The result may be empty. The text is cut first, so a long text costs no more than a short one. */
export function cleanName(text: string): string {
  return text.slice(0, NAME_LENGTH_MAX).replace(UNPRINTABLE, '');
}
