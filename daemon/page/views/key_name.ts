/**
 * Names keys by the text that they write, as the help does, because letters and signs have different positions on
 * different keyboards.
 */

/** The properties of a `KeyboardEvent` that identify the key. */
interface Pressed {
  /** Text that the key writes, or the key's name. */
  key: string;
  /** Position of the key, named after the key that has this position on an American keyboard. */
  code: string;
  shiftKey: boolean;
}

/** Letters and digits that the page uses. */
const LETTERS = 'WASDFVYTLOI1234';
export const SIGNS = '?/+-[].,';

/**
 * Returns the text that the key writes, in capitals: `V`, `?`, `Space`, `ArrowLeft`. With Shift held, `+Shift` follows,
 * as in `L+Shift`, except for digits and signs, which many keyboards write only with Shift. A key whose text the page
 * does not use is named by its position on an American keyboard, for three reasons: in these positions, `W` `A` `S` `D`
 * are adjacent on every keyboard; French keyboards write digits with Shift; some keyboards have no Latin letters.
 */
export function nameKey({ key, code, shiftKey }: Pressed): string {
  let name = key === ' ' ? 'Space' : key.length > 1 ? key : key.toUpperCase();
  const place = /^(?:Key|Digit)(.)$/.exec(code)?.[1];
  const isUsed = (LETTERS + SIGNS).includes(name);
  if (place && !isUsed && (key > '\x7f' || (place > '9' ? 'WASD'.includes(place) : !shiftKey))) name = place;
  return shiftKey && (name > '9' || name.length > 1) && !SIGNS.includes(name) ? `${name}+Shift` : name;
}
