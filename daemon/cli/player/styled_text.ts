/** Lines of styled text for a terminal. Wide characters count as two columns, and lines are cut to a given width. */
import stringWidth from 'string-width';
import { escapeControls } from '../../../agent/output/printable.ts';

export type Style = 'bold' | 'dim' | 'red' | 'yellow' | 'green' | 'cyan';

export interface Span {
  text: string;
  style?: Style | undefined;
}

export type Line = readonly Span[];

const SGR: Readonly<Record<Style, number>> = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 };
const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

/** Creates a span. Text is escaped, because recorded names must not send control sequences to the terminal. */
export function span(text: string, style?: Style): Span {
  return style ? { text: escapeControls(text), style } : { text: escapeControls(text) };
}

/** Returns the width of the text in terminal columns. */
export function measureWidth(text: string): number {
  return stringWidth(text);
}

/** Cuts the line to at most `columns` columns. */
export function cut(line: Line, columns: number): Line {
  const kept: Span[] = [];
  let left = columns;
  for (const { text, style } of line) {
    const fitting = cutText(text, left);
    if (fitting !== '') kept.push({ text: fitting, style });
    if (fitting.length < text.length) break;
    left -= measureWidth(fitting);
  }
  return kept;
}

export function cutText(text: string, columns: number): string {
  if (measureWidth(text) <= columns) return text;
  let kept = '';
  let left = columns;
  for (const { segment } of graphemes.segment(text)) {
    left -= measureWidth(segment);
    if (left < 0) break;
    kept += segment;
  }
  return kept;
}

/** Pads or cuts the text to exactly `columns` columns. */
export function fitText(text: string, columns: number): string {
  const fitting = cutText(text, columns);
  return fitting + ' '.repeat(columns - measureWidth(fitting));
}

export function toAnsi(line: Line, colours: boolean): string {
  return line.map(({ text, style }) => (colours && style ? `\u001b[${SGR[style]}m${text}\u001b[0m` : text)).join('');
}
