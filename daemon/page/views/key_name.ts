/**
 * Names keys as the help does, by the text that they write, because keyboards differ in where a letter or a sign is.
 */

/** The properties of a `KeyboardEvent` that identify the key. */
interface Pressed {
  /** Text that the key writes, or the key's name. */
  key: string;
  /** Position of the key, named after the key that an American keyboard has there. */
  code: string;
  shiftKey: boolean;
}

/** Letters and digits that the page uses. */
const LETTERS = 'WASDFVYTLOI1234';
export const SIGNS = '?/+-[].,';

/**
 * Returns the text that the key writes, in capitals: `V`, `?`, `Space`, `ArrowLeft`; with Shift held `L+Shift`, except
 * for digits and signs, which many keyboards write only with Shift. A key whose text the page does not use is named by
 * its position on an American keyboard. There `W` `A` `S` `D` lie together; French keyboards write digits with Shift,
 * and some keyboards have no Latin letters.
 */
export function nameKey({ key, code, shiftKey }: Pressed): string {
  let name = key === ' ' ? 'Space' : key.length > 1 ? key : key.toUpperCase();
  const place = /^(?:Key|Digit)(.)$/.exec(code)?.[1];
  const isUsed = (LETTERS + SIGNS).includes(name);
  if (place && !isUsed && (key > '\x7f' || (place > '9' ? 'WASD'.includes(place) : !shiftKey))) name = place;
  return shiftKey && (name > '9' || name.length > 1) && !SIGNS.includes(name) ? `${name}+Shift` : name;
}
