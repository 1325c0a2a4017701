/**
 * Cleans names from untrusted programs: shortens them, and removes control characters, which could move a terminal's
 * cursor.
 */
export const NAME_LENGTH_MAX = 255;

/**
 * Matches control characters and lone surrogates. Cutting a text may leave a lone surrogate, which UTF-8 cannot encode.
 */
const UNPRINTABLE = /[\p{Cc}\p{Cs}]/gu;

/**
 * Returns the clean name, which may be empty. Cuts the text first, so that a long text costs no more than a short one.
 */
export function cleanName(text: string): string {
  return text.slice(0, NAME_LENGTH_MAX).replace(UNPRINTABLE, '');
}
