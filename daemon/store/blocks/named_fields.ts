/** Finds, by their names in the API, the fields that only some event types have. */
import { getApiName } from '../../../bpf/schema/define.ts';
import type { EventDefinition } from '../../../bpf/schema/index.ts';
import type { Kind } from '../../../bpf/schema/kinds.ts';
import type { Dictionary } from './scanned_block.ts';

export interface NamedField {
  name: string;
  kind: Kind;
  /** Name of the field's column, or the common beginning of the names of its columns. */
  column: string;
}

/** Returns the fields of an event type that `isWanted` accepts, in the order of their definition. */
export function selectFields(event: EventDefinition, isWanted: (name: string, kind: Kind) => boolean): NamedField[] {
  return Object.entries(event.fields)
    .map(([key, field]) => ({ name: getApiName(key, field), kind: field.kind }))
    .filter(({ name, kind }) => kind.columns.length > 0 && isWanted(name, kind))
    .map(({ name, kind }) => ({ name, kind, column: `${event.name}.${name}` }));
}

/** Returns the text that a stored number stands for: a path, a name or a label; null for an unknown file. */
export function getStoredText({ source, labels }: Kind, stored: number, dictionary: Dictionary): string | null {
  if (source === 'file') return dictionary.file(stored)?.path ?? null;
  return source === 'text' ? dictionary.name(stored) : (labels?.get(stored) ?? null);
}
