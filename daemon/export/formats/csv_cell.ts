/**
 * Cells of comma-separated values as in RFC 4180, with quotes where they are needed.
 *
 * Names come from recorded processes, and a spreadsheet takes a text that begins with = + - @ for a formula. Such a
 * text gets an apostrophe in front, and so does one that begins with an apostrophe: removing one restores the text.
 */
const FORMULA = /^['=+\-@\t\r]/;
const QUOTED = /[",\r\n]/;

/** Null becomes an empty cell; an empty text becomes `""`. */
export function csvCell(value: unknown): string {
  if (value === null) return '';
  if (typeof value !== 'string') return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return text === '' || QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Cells, and the end of the line. */
export function csvLine(values: readonly unknown[]): string {
  return `${values.map(csvCell).join(',')}${END_OF_LINE}`;
}

export const END_OF_LINE = '\r\n';
