/** Names keys as the help does: by what they write. Keyboards differ in where a letter or a sign is. */

/** The part of a KeyboardEvent that says which key it is. */
interface Pressed {
  /** Text that the key writes, or its name. */
  key: string;
  /** Place of the key, by the letter that an American keyboard has there. */
  code: string;
  shiftKey: boolean;
}

/** Letters and digits that the page uses. */
const LETTERS = 'WASDFVYTLOI1234';
export const SIGNS = '?/+-[].,';

/**
 * Returns what the key writes, in capitals: `V`, `?`, `Space`, `ArrowLeft`; with Shift held `L+Shift`, except for
 * digits and signs, which many keyboards write with Shift only. A key whose text the page does not use counts by its
 * place on an American keyboard: `W` `A` `S` `D` lie together, French keyboards have digits with Shift, others no Latin
 * letters.
 */
export function nameKey({ key, code, shiftKey }: Pressed): string {
  let name = key === ' ' ? 'Space' : key.length > 1 ? key : key.toUpperCase();
  const place = /^(?:Key|Digit)(.)$/.exec(code)?.[1];
  const isUsed = (LETTERS + SIGNS).includes(name);
  if (place && !isUsed && (key > '\x7f' || (place > '9' ? 'WASD'.includes(place) : !shiftKey))) name = place;
  return shiftKey && (name > '9' || name.length > 1) && !SIGNS.includes(name) ? `${name}+Shift` : name;
}
