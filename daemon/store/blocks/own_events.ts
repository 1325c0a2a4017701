/** Determines the events of a transaction for which the transaction's caller waited. */
import { isWrittenBack, ORIGINS } from '../../../agent/recording/format/owner_columns.ts';
import { typeRows } from '../../../bpf/schema/block.ts';
import { getColumn, type RecordingBlock, type RecordingDictionary, type ScannedBlock } from './scanned_block.ts';

/** Columns that a scan must read for `createOwnEventTest`. */
export const OWN_EVENT_COLUMNS = ['context', 'context_source'] as const;

/**
 * Whether an event of a transaction was caused by the transaction's own threads. `isOfContext`: the event's own context
 * belongs to the transaction. `source`: the event's `context_source`.
 */
export function isOwnEvent(isOfContext: boolean, source: number): boolean {
  return isOfContext && !isWrittenBack(source);
}

/**
 * Returns a test for the rows of a block: whether the transaction's own threads caused the event. The transaction's
 * other events write back data that it wrote earlier, and take none of its time.
 */
export function createOwnEventTest(
  { block, dictionary }: ScannedBlock,
  transactionId: string,
): (row: number) => boolean {
  const contexts = getColumn(block, 'context');
  const sources = getColumn(block, 'context_source');
  const known = new Map<number, boolean>();
  return (row) => {
    const context = contexts[row]!;
    let isOf = known.get(context);
    if (isOf === undefined) {
      isOf = context !== 0 && dictionary.context(context).transactionId === transactionId;
      known.set(context, isOf);
    }
    return isOwnEvent(isOf, sources[row]!);
  };
}

/*
 * Finds the events of many transactions in a scan: events in the transactions' own contexts, and requests that carry
 * data of the transactions.
 */

/** Columns that a scan must read to find the events of many transactions. */
export const OWNED_COLUMNS = [...OWN_EVENT_COLUMNS, ...ORIGINS.map(({ context }) => context.name)];

interface OwningTransaction {
  transactionId: string;
}

/** Called once for each transaction that an event belongs to; `owner` is the index of the transaction. */
type OnOwned = (row: number, owner: number, isOwn: boolean) => void;

const NONE = -1;
const NO_ORIGINS: readonly number[] = [];

/**
 * Returns a function that finds the transactions' events in a block. It finds the same events as scans by transaction
 * id.
 */
export function createOwnedRowFinder(
  transactions: readonly OwningTransaction[],
): (scanned: RecordingBlock, onOwned: OnOwned) => void {
  const owners = new Map(transactions.map(({ transactionId }, index) => [transactionId, index]));
  const known = new Map<RecordingDictionary, Map<number, number>>();

  /** Returns a function that finds the transaction that a context belongs to. */
  function createOwnerFinder(dictionary: RecordingDictionary): (context: number) => number {
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
    const findOwner = createOwnerFinder(dictionary);
    const contexts = getColumn(block, 'context');
    const sources = getColumn(block, 'context_source');
    const readOrigins = createOriginReader(scanned);
    const see = (row: number, owner: number, isOfContext: boolean) =>
      onOwned(row, owner, isOwnEvent(isOfContext, sources[row]!));
    for (let row = 0; row < block.rowCount; row++) {
      const own = findOwner(contexts[row]!);
      if (own !== NONE) see(row, own, true);
      const origins = readOrigins(row);
      if (origins.length === 0) continue;
      const others = new Set(origins.map(findOwner));
      for (const owner of others) if (owner !== NONE && owner !== own) see(row, owner, false);
    }
  };
}

/** Returns a function that returns the contexts of a row's origins. */
function createOriginReader({ block }: RecordingBlock): (row: number) => readonly number[] {
  const types = getColumn(block, 'event_type');
  // A type's columns have values only for rows of that type, so rows are converted to indexes in these columns.
  const places = typeRows(block);
  const ofTypes: ReturnType<typeof getColumn>[][] = [];
  for (const { eventType, context } of ORIGINS) {
    ofTypes[eventType] ??= [];
    ofTypes[eventType].push(getColumn(block, context.name));
  }
  return (row) => ofTypes[types[row]!]?.map((contexts) => contexts[places[row]!]!) ?? NO_ORIGINS;
}
