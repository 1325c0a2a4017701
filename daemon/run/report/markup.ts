/** Escapes text within XML and HTML: recorded text is untrusted. */

/** XML 1.0 does not allow these characters, not even escaped. */
const FORBIDDEN = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu;

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
  '\n': '&#10;',
  '\r': '&#13;',
  '\t': '&#9;',
};

/** Escapes text. The result is also valid in attribute values. */
export function escapeMarkup(text: string): string {
  return text.replace(FORBIDDEN, '\u{FFFD}').replace(/[&<>"'\n\r\t]/g, (character) => ENTITIES[character]!);
}
