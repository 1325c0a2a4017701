/** Lists of the owners of parts of events: of the slots that name an owner or bytes, in their order. */
import type { Lists } from '../../clickhouse/native/encode.ts';
import { doubled } from '../../clickhouse/native/texts.ts';
import type { ContextText } from '../../recording/format/ids.ts';
import { ORIGINS } from '../../recording/format/owner_columns.ts';
import { contextTexts } from './context_texts.ts';
import type { ShippedBlock } from './shipped_block.ts';

type OriginPart = 'origin_services' | 'origin_transactions' | 'origin_traces' | 'origin_bytes';

export interface OriginLists {
  /** Sets the lists to those of a block. */
  set(shipped: ShippedBlock): void;
  readonly lists: Readonly<Record<OriginPart, Lists>>;
}

interface Slot {
  contexts: Uint32Array;
  services: Uint32Array;
  bytes: BigUint64Array;
}

export function originLists(contextOf: (id: number) => ContextText): OriginLists {
  const entries = contextTexts(contextOf);
  let ends = new Uint32Array(0);
  let services = new Uint32Array(1024);
  let contexts = new Uint32Array(1024);
  let bytes = new BigUint64Array(1024);
  let length = 0;
  let names: ShippedBlock['names'] | undefined;

  function add(slot: Slot, at: number): void {
    if (slot.services[at] === 0 && slot.contexts[at] === 0 && slot.bytes[at] === 0n) return;
    if (length === services.length) {
      [services, contexts] = [doubled(services), doubled(contexts)];
      const larger = new BigUint64Array(2 * length);
      larger.set(bytes);
      bytes = larger;
    }
    services[length] = names!.placeOf(slot.services[at]!);
    contexts[length] = entries.placeOf(slot.contexts[at]!);
    bytes[length++] = slot.bytes[at]!;
  }

  return {
    set({ block, rowCount, names: ofBlock, rowsOf }) {
      names = ofBlock;
      entries.clear();
      length = 0;
      if (ends.length < rowCount) ends = new Uint32Array(rowCount);
      const types = block.columns.get('event_type')! as Uint8Array;
      const slotsOf = rowsOf.map((_, type) => slotsOfType(block, type));
      const next = new Uint32Array(rowsOf.length);
      for (let row = 0; row < rowCount; row++) {
        const type = types[row]!;
        const slots = slotsOf[type]!;
        if (slots.length > 0) {
          const at = next[type]!++;
          for (const slot of slots) add(slot, at);
        }
        ends[row] = length;
      }
    },
    get lists() {
      return {
        origin_services: { ends, items: { table: names!.table, ids: services } },
        origin_transactions: { ends, items: { table: entries.tables.transaction, ids: contexts } },
        origin_traces: { ends, items: { table: entries.tables.trace, ids: contexts } },
        origin_bytes: { ends, items: bytes },
      };
    },
  };
}

function slotsOfType(block: ShippedBlock['block'], type: number): Slot[] {
  return ORIGINS.filter(({ eventType }) => eventType === type).map(({ context, service, bytes }) => ({
    contexts: block.columns.get(context.name)! as Uint32Array,
    services: block.columns.get(service.name)! as Uint32Array,
    bytes: block.columns.get(bytes.name)! as BigUint64Array,
  }));
}
