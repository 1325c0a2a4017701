/** Escapes recorded text, which is untrusted, for XML and HTML. */

/** Characters that XML 1.0 forbids, even in escaped form. */
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
