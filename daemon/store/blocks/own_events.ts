/** Decides which events of a transaction its caller waited for. */
import { isWrittenBack } from '../../../agent/recording/format/owner_columns.ts';
import { column } from './column.ts';
import type { ScannedBlock } from './scanned_block.ts';

/** Columns that a scan must read for this test. */
export const OWN_EVENT_COLUMNS = ['context', 'context_source'] as const;

/**
 * Whether the transaction's own threads caused an event that belongs to it. `isOfContext`: the event's own context is of
 * the transaction; `source` is its `context_source`.
 */
export function isOwnEvent(isOfContext: boolean, source: number): boolean {
  return isOfContext && !isWrittenBack(source);
}

/**
 * Returns a test for the rows of a block: whether the transaction's own threads caused the event. Its other events
 * write back data that it wrote earlier, which is its work but takes none of its time.
 */
export function ownEventTest({ block, dictionary }: ScannedBlock, transactionId: string): (row: number) => boolean {
  const [contexts, sources] = [column(block, 'context'), column(block, 'context_source')];
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
