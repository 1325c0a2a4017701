/** Makes names safe to read: they come from recorded programs, so nothing in them may change how the page reads. */

const NAME_MAX = 120;
/** Control characters, invisible characters, and characters that change the direction of text. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Escapes a text that may contain names: hidden characters become `\u{…}`. */
export function escapeHidden(text: string): string {
  return text.replace(HIDDEN, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`);
}

/** Formats a name for display: hidden characters become `\u{…}`, and a long name loses its middle. */
export function formatName(name: string): string {
  const visible = escapeHidden(name);
  if (visible.length <= NAME_MAX) return visible === '' ? '(no name)' : visible;
  const half = NAME_MAX / 2 - 1;
  return `${visible.slice(0, half)}…${visible.slice(-half)}`;
}
