/** Formats a diagnosis as a table. */
import { LAYERS, type LayerState, limitsOf } from '../capture/layers.ts';
import { printable } from '../output/printable.ts';
import type { Check, CheckState } from './check.ts';
import type { Diagnosis } from './diagnosis.ts';

const MARKS: Record<CheckState, string> = { ok: 'ok', warning: 'warn', failed: 'NO', unknown: '?' };

type Row = readonly [mark: string, name: string, text: string];

/** `width` is the terminal's; without one, lines are not wrapped. */
export function asText({ ok, checks, layers }: Diagnosis, width = Number.POSITIVE_INFINITY): string {
  const rows: Row[] = [...checks.map(rowOf), ...layers.map(layerRow)];
  const marks = Math.max(...rows.map(([mark]) => mark.length));
  const names = Math.max(...rows.map(([, name]) => name.length));
  const lines = rows.flatMap(([mark, name, text]) => {
    const [first = '', ...rest] = wrapped(printable(text), width - marks - names - 4);
    const indent = ' '.repeat(marks + names + 4);
    return [`${mark.padEnd(marks)}  ${name.padEnd(names)}  ${first}`, ...rest.map((line) => indent + line)];
  });
  const verdict = ok ? 'This host can be recorded: kreplay up' : 'This host cannot be recorded as it is.';
  return `${[...lines, verdict].join('\n')}\n`;
}

function rowOf({ state, name, text, advice }: Check): Row {
  return [MARKS[state], name, advice === undefined ? text : `${text}; ${advice}`];
}

function layerRow(layer: LayerState): Row {
  const notes = layer.on ? limitsOf(layer) : [layer.reason];
  const text = LAYERS[layer.name];
  return [layer.on ? 'on' : 'off', layer.name, notes.length > 0 ? `${text}: ${notes.join('; ')}` : text];
}

const WIDTH_MIN = 20;

function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > Math.max(width, WIDTH_MIN)) {
      lines.push(line);
      line = word;
    } else line = line === '' ? word : `${line} ${word}`;
  }
  return [...lines, line];
}
