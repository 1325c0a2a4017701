/** Finds the events of many transactions in a scan: those of their own contexts, and the requests with their data. */
import { ORIGINS } from '../../../agent/recording/format/owner_columns.ts';
import { typeRows } from '../../../bpf/schema/block.ts';
import { column } from './column.ts';
import { isOwnEvent, OWN_EVENT_COLUMNS } from './own_events.ts';
import type { RecordingBlock, RecordingDictionary } from './scanned_block.ts';

/** Columns that a scan must read for this. */
export const OWNED_COLUMNS = [...OWN_EVENT_COLUMNS, ...ORIGINS.map(({ context }) => context.name)];

export interface OwningTransaction {
  transactionId: string;
}

/** Called for an event once for each of the transactions that it belongs to; `owner` is the transaction's index. */
export type OnOwned = (row: number, owner: number, isOwn: boolean) => void;

const NONE = -1;
const NO_ORIGINS: readonly number[] = [];

/** Returns a function that looks through a block. The events of a transaction are those of a scan with its id. */
export function ownedRows(
  transactions: readonly OwningTransaction[],
): (scanned: RecordingBlock, onOwned: OnOwned) => void {
  const owners = new Map(transactions.map(({ transactionId }, index) => [transactionId, index]));
  const known = new Map<RecordingDictionary, Map<number, number>>();

  /** Returns a function that finds the owner of a context. */
  function ownerIn(dictionary: RecordingDictionary): (context: number) => number {
    const ofContexts = known.get(dictionary) ?? new Map<number, number>([[0, NONE]]);
    known.set(dictionary, ofContexts);
    return (context) => {
      let owner = ofContexts.get(context);
      if (owner === undefined) {
        const { transactionId } = dictionary.context(context);
        owner = transactionId === null ? NONE : (owners.get(transactionId) ?? NONE);
        ofContexts.set(context, owner);
      }
      return owner;
    };
  }

  return (scanned, onOwned) => {
    const { block, dictionary } = scanned;
    const ownerOf = ownerIn(dictionary);
    const [contexts, sources] = [column(block, 'context'), column(block, 'context_source')];
    const originsOf = originReader(scanned);
    const see = (row: number, owner: number, isOfContext: boolean) =>
      onOwned(row, owner, isOwnEvent(isOfContext, sources[row]!));
    for (let row = 0; row < block.rowCount; row++) {
      const own = ownerOf(contexts[row]!);
      if (own !== NONE) see(row, own, true);
      const origins = originsOf(row);
      if (origins.length === 0) continue;
      const others = new Set(origins.map(ownerOf));
      for (const owner of others) if (owner !== NONE && owner !== own) see(row, owner, false);
    }
  };
}

/** Returns a function that gives the contexts of a row's origins. */
function originReader({ block }: RecordingBlock): (row: number) => readonly number[] {
  const types = column(block, 'event_type');
  // The columns of a type have values only for rows of that type.
  const places = typeRows(block);
  const ofTypes: ReturnType<typeof column>[][] = [];
  for (const { eventType, context } of ORIGINS) {
    ofTypes[eventType] ??= [];
    ofTypes[eventType].push(column(block, context.name));
  }
  return (row) => ofTypes[types[row]!]?.map((contexts) => contexts[places[row]!]!) ?? NO_ORIGINS;
}
