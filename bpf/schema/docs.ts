/** The tables of agent/docs/events.md: fields of events, ways in which an owner is determined, and causes of losses. */
import { derivedFields } from './api.ts';
import { commonFields } from './common.ts';
import { getApiName } from './define.ts';
import { EVENTS } from './index.ts';
import type { Field } from './kinds.ts';
import { LOSS_CAUSES, LOSS_CURES, type LossCause } from './losses.ts';
import { FILE_KINDS, QUALITY_MEANINGS, SOURCE_MEANINGS } from './owner.ts';

function listDerivedRows(): [string, string][] {
  const derived = Object.entries(derivedFields).map(([name, schema]) => [name, schema.meta()?.description ?? '']);
  return [['event_type', 'one of the types below'], ...(derived as [string, string][])];
}

function listFieldRows(fields: Readonly<Record<string, Field>>): [string, string][] {
  return Object.entries(fields)
    .filter(([, field]) => !['internal', 'context', 'process'].includes(field.kind.name))
    .flatMap(([name, field]): [string, string][] => {
      const words = field.kind.labels
        ? `: ${[...field.kind.labels.values()].map((word) => `\`${word}\``).join(', ')}`
        : '';
      const row: [string, string] = [getApiName(name, field), field.doc + words];
      return field.kind.name === 'file' ? [row, FILE_KIND_ROW] : [row];
    });
}

const FILE_KIND_ROW: [string, string] = ['file_kind', FILE_KINDS.map((kind) => `\`${kind}\``).join(', ')];

function formatTable(entries: readonly (readonly [string, string])[], heading = 'field'): string {
  return [`| ${heading} | meaning |`, '|---|---|', ...entries.map(([name, doc]) => `| \`${name}\` | ${doc} |`)].join(
    '\n',
  );
}

export function formatEventTables(): string {
  const own = EVENTS.map((event) => {
    const specific = Object.fromEntries(Object.entries(event.fields).filter(([name]) => !(name in commonFields)));
    return `**\`${event.name}\`**: ${event.doc}\n\n${formatTable(listFieldRows(specific))}`;
  });
  return [`**Every event**\n\n${formatTable([...listDerivedRows(), ...listFieldRows(commonFields)])}`, ...own].join(
    '\n\n',
  );
}

export function formatOwnerTables(): string {
  const [sources, qualities] = [SOURCE_MEANINGS, QUALITY_MEANINGS].map((meanings) => Object.entries(meanings));
  return `${formatTable(sources!, '`source`')}\n\n${formatTable(qualities!, '`quality`')}`;
}

export function formatLossTable(): string {
  const rows = Object.entries(LOSS_CAUSES).map(
    ([cause, meaning]) => `| \`${cause}\` | ${meaning} | ${LOSS_CURES[cause as LossCause] ?? ''} |`,
  );
  return ['| cause | meaning | cure |', '|---|---|---|', ...rows].join('\n');
}

/** Puts `body` between `<!-- generated:NAME -->` and `<!-- /generated:NAME -->`. */
export function replaceGenerated(document: string, name: string, body: string): string {
  const open = `<!-- generated:${name} -->`;
  const close = `<!-- /generated:${name} -->`;
  const [before, rest, again] = document.split(open);
  const [, after, more] = rest?.split(close) ?? [];
  if (after === undefined || again !== undefined || more !== undefined) {
    throw new Error(`the document must have ${open} ... ${close} once`);
  }
  return `${before}${open}\n${body}\n${close}${after}`;
}
