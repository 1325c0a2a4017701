/**
 * What the map needs of an event, found in its text: to parse each of some thousands of events a second would be most
 * of the page's work, and most of its garbage.
 */

/** The daemon writes events as objects with these fields, without space between them. */
export interface EventHead {
  startNs: bigint;
  durationNs: bigint;
  isFailed: boolean;
}

/**
 * A quotation mark in a text is written with a backslash before it, so that no recorded name can look like a field.
 * Returns null if the text is no event.
 */
export function eventHead(text: string): EventHead | null {
  const [startNs, durationNs] = [integerAfter(text, '"timestamp_ns":'), integerAfter(text, '"duration_ns":')];
  const result = integerAfter(text, '"result":');
  if (startNs === null || durationNs === null || durationNs < 0n) return null;
  return { startNs, durationNs, isFailed: result !== null && result < 0n };
}

const [MINUS, ZERO, NINE] = [0x2d, 0x30, 0x39];
/** Integers of 64 bits have no more. */
const DIGITS_MAX = 20;

function integerAfter(text: string, name: string): bigint | null {
  const found = text.indexOf(name);
  if (found < 0) return null;
  const from = found + name.length;
  let to = text.charCodeAt(from) === MINUS ? from + 1 : from;
  const first = to;
  while (text.charCodeAt(to) >= ZERO && text.charCodeAt(to) <= NINE) to++;
  return to === first || to - first > DIGITS_MAX ? null : BigInt(text.slice(from, to));
}
