/** Conditions on fields that only some types of event have: their texts become numbers, type by type. */
import { COLUMNS, type Column } from '../../../bpf/schema/columns.ts';
import { apiName } from '../../../bpf/schema/define.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import type { Kind } from '../../../bpf/schema/kinds.ts';
import type { Lookup } from './lookup.ts';

/** Texts of a field; those of files are patterns. */
export interface OwnTexts {
  operations?: readonly string[];
  syscalls?: readonly string[];
  devices?: readonly string[];
  files?: readonly string[];
  /** Transactions of the tasks that queued requests. */
  queuers?: readonly string[];
}

/** The field that each list is about. */
export const OWN_FIELDS = {
  operations: 'operation',
  syscalls: 'syscall',
  devices: 'device',
  files: 'file',
  queuers: 'queued_by',
} as const satisfies Record<keyof OwnTexts, string>;

export type OwnField = (typeof OWN_FIELDS)[keyof OwnTexts];

/** Name of the column that conditions on a field look at. */
export function conditionColumn(event: string, field: string, { source }: Kind): string {
  return `${event}.${field}${source === 'queuer' ? '_context' : ''}`;
}

interface OwnColumn {
  column: Column;
  kind: Kind;
}

const columnsOf = (field: string): OwnColumn[] =>
  EVENTS.flatMap((event) =>
    Object.entries(event.fields)
      .filter(([name, of]) => apiName(name, of) === field)
      .map(([, { kind }]) => {
        const own = conditionColumn(event.name, field, kind);
        return { kind, column: COLUMNS.find(({ name }) => name === own)! };
      }),
  );

/** The columns that the conditions of each list look at, one for each type of event that has the field. */
export const CONDITION_COLUMNS = Object.entries(OWN_FIELDS).map(([texts, field]) => ({
  texts: texts as keyof OwnTexts,
  columns: columnsOf(field),
}));

/** Values of a column that one type of event has; the numbers are in ascending order, each once. */
export interface OwnValues {
  column: Column;
  numbers: Uint32Array;
}

/** Whether an event has one of these values. */
export type OwnCondition = readonly OwnValues[];

/** Returns a condition for each field that is given; one that no event of this recording can meet is empty. */
export function ownConditions(given: OwnTexts, lookup: Lookup): OwnCondition[] {
  return CONDITION_COLUMNS.flatMap(({ texts, columns }) => {
    const wanted = given[texts];
    return wanted ? [columns.flatMap((own) => valuesOf(own, wanted, lookup))] : [];
  });
}

function valuesOf({ column, kind }: OwnColumn, wanted: readonly string[], lookup: Lookup): OwnValues[] {
  // The ids of files may be very many: they are in this form already.
  const numbers =
    kind.source === 'file'
      ? lookup.files.find(wanted)
      : Uint32Array.from(new Set(wanted.flatMap((text) => numbersOf(kind, text, lookup)))).sort();
  return numbers.length > 0 ? [{ column, numbers }] : [];
}

function numbersOf({ source, labels }: Kind, text: string, lookup: Lookup): number[] {
  if (source === 'text') return lookup.nameIds(text);
  if (source === 'queuer') return lookup.contextsOfTransaction(text);
  return [...(labels ?? [])].filter(([, label]) => label === text).map(([number]) => number);
}
