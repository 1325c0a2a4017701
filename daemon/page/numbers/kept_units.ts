/** Keeps a number on one line with its unit, in all text that the page shows. */
import { options } from 'preact';

/** Spaces between the digits of a number, and between a number and the word after it. */
const INNER_SPACES = /(?<=(^|\s)\W*[\d.]+) (?=\d{3}|[%a-zµ])/gi;

/**
 * Replaces spaces with no-break spaces in numbers and before their units. Sentences that the page has in common with
 * the API and the commands have plain spaces, which can be searched for; browsers copy no-break spaces as plain ones.
 */
export function keepUnits(text: string): string {
  return text.replace(INNER_SPACES, '\u00a0');
}

/** Makes Preact apply `keepUnits` to each text that it renders. */
export function keepRenderedUnits(): void {
  // The properties of a text's node are the text itself.
  options.vnode = (node: { props: unknown }) => {
    if (typeof node.props === 'string') node.props = keepUnits(node.props);
  };
}
