/** The event tables of the README. */
import { commonFields } from './common.ts';
import { EVENTS } from './index.ts';
import type { Field } from './kinds.ts';

/** Fields of every event that do not stand in the kernel's record as such. */
const DERIVED: readonly [string, string][] = [
  ['event_id', 'opaque, unique across nodes, stable for ever'],
  ['event_type', 'one of the types below'],
  ['service_name', 'service that the event belongs to'],
  ['transaction_id', 'transaction that caused it, or null'],
  ['trace_id', 'W3C trace id, 32 hex digits, or null'],
  ['span_id', '16 hex digits, or null'],
  ['attribution', '`{source, quality}`: how its owner was learned, and how sure that is'],
  ['node', 'host that recorded it'],
  ['error', 'name of the errno when result is negative, such as "ENOSPC", or null'],
];

function apiName(name: string, field: Field): string {
  return field.kind.columnName ?? name;
}

function rows(fields: Readonly<Record<string, Field>>): [string, string][] {
  return Object.entries(fields)
    .filter(([, field]) => !['internal', 'context', 'process'].includes(field.kind.name))
    .map(([name, field]) => {
      const words = field.kind.labels
        ? `: ${[...field.kind.labels.values()].map((word) => `\`${word}\``).join(', ')}`
        : '';
      return [apiName(name, field), field.doc + words];
    });
}

function table(entries: readonly (readonly [string, string])[]): string {
  return ['| field | meaning |', '|---|---|', ...entries.map(([name, doc]) => `| \`${name}\` | ${doc} |`)].join('\n');
}

export function eventTables(): string {
  const own = EVENTS.map((event) => {
    const specific = Object.fromEntries(Object.entries(event.fields).filter(([name]) => !(name in commonFields)));
    const entries = rows(specific);
    if (event.name === 'sys_write')
      entries.splice(1, 0, ['file_kind', 'what the file is: `regular`, `socket`, `pipe` ...']);
    return `**\`${event.name}\`**: ${event.doc}\n\n${table(entries)}`;
  });
  return [`**Every event**\n\n${table([...DERIVED, ...rows(commonFields)])}`, ...own].join('\n\n');
}

/** Puts `body` between `<!-- generated:NAME -->` and `<!-- /generated:NAME -->`. */
export function replaceGenerated(document: string, name: string, body: string): string {
  const [open, close] = [`<!-- generated:${name} -->`, `<!-- /generated:${name} -->`];
  const [before, rest] = document.split(open);
  const after = rest?.split(close)[1];
  if (before === undefined || after === undefined) throw new Error(`no ${open} ... ${close} in the document`);
  return `${before}${open}\n${body}\n${close}${after}`;
}
