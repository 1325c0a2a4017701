/** What only some events of a columnar line have: owners of the data they carry, and errors. */

import { ORIGINS_MAX } from '../../../bpf/schema/kinds.ts';
import { bigColumn, column } from './column.ts';
import { errorName } from './errno.ts';
import { EVENT_ROLES } from './event_roles.ts';
import { type JsonList, jsonList } from './json_list.ts';
import { integerJson, type NumberColumn } from './number_column.ts';
import { originColumns } from './row_layout.ts';
import type { Dictionary, ScannedBlock } from './scanned_block.ts';

/** Number of texts after which all are forgotten: memory must not grow with the answer. */
const TEXTS_MAX = 65_536;

/** Names of the columns of each slot, by the id of the event types that have some. */
const SLOTS = EVENT_ROLES.flatMap(({ id, origins }) => (origins ? [{ id, slots: slotsOf(origins.column) }] : []));

function slotsOf(name: string): { service: string; context: string; bytes: string }[] {
  const columns = originColumns(name, ORIGINS_MAX);
  return Array.from({ length: ORIGINS_MAX }, (_, slot) => {
    const [service, context, bytes] = columns.slice(slot * 3, slot * 3 + 3) as [string, string, string];
    return { service, context, bytes };
  });
}

export interface LineOrigins extends Pick<JsonList, 'take' | 'length'> {
  /**
   * Adds `[row, service, transaction, bytes]` for each origin of the events of a type, in order of row; `rows` are their
   * rows in the line.
   */
  add(scanned: ScannedBlock, type: number, rows: Uint32Array): void;
}

export function lineOrigins(): LineOrigins {
  const found = jsonList();
  const ownerOf = ownerTexts();
  return {
    add({ block, dictionary }, type, rows) {
      const slots = (SLOTS.find(({ id }) => id === type)?.slots ?? []).map((slot) => ({
        services: column(block, slot.service),
        contexts: column(block, slot.context),
        bytes: bigColumn(block, slot.bytes),
      }));
      if (slots.length === 0) return;
      for (let i = 0; i < rows.length; i++) {
        for (const { services, contexts, bytes } of slots) {
          const [service, context] = [services[i]!, contexts[i]!];
          if (service === 0 && context === 0 && bytes[i] === 0n) continue;
          found.add(`[${rows[i]},${ownerOf(dictionary, service, context)},${integerJson(bytes[i]!)}]`);
        }
      }
    },
    take: found.take,
    get length() {
      return found.length;
    },
  };
}

/** Returns a function that gives the text of a service and a transaction: `"shop","order-1"`. */
function ownerTexts(): (dictionary: Dictionary, service: number, context: number) => string {
  let texts = new WeakMap<Dictionary, Map<number, Map<number, string>>>();
  let count = 0;
  return (dictionary, service, context) => {
    const known = texts.get(dictionary)?.get(service)?.get(context);
    if (known !== undefined) return known;
    if (++count > TEXTS_MAX) {
      texts = new WeakMap();
      count = 1;
    }
    const services = texts.get(dictionary) ?? new Map<number, Map<number, string>>();
    const contexts = services.get(service) ?? new Map<number, string>();
    const { transactionId } = dictionary.context(context);
    const text = JSON.stringify([dictionary.name(service), transactionId]).slice(1, -1);
    texts.set(dictionary, services.set(service, contexts.set(context, text)));
    return text;
  };
}

export interface LineErrors extends Pick<JsonList, 'take'> {
  /** Adds the names of those negative results in the rows [from, to) that were not listed before. */
  add(results: NumberColumn, from: number, to: number): void;
}

export function lineErrors(): LineErrors {
  const found = jsonList('{', '}');
  const listed = new Set<number | string>();
  return {
    add({ values, large }, from, to) {
      for (let row = from; row < to; row++) {
        if (!(values[row]! < 0)) continue;
        const result = large.get(row) ?? values[row]!;
        if (listed.has(result)) continue;
        if (listed.size >= TEXTS_MAX) listed.clear();
        listed.add(result);
        found.add(`"${result}":${JSON.stringify(errorName(BigInt(result)))}`);
      }
    },
    take: found.take,
  };
}
