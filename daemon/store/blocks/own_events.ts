/** Decides which events of a transaction its caller waited for. */
import { isWrittenBack } from '../../../agent/recording/format/owner_columns.ts';
import { column } from './column.ts';
import type { ScannedBlock } from './scanned_block.ts';

/** Columns that a scan must read for this test. */
export const OWN_EVENT_COLUMNS = ['context', 'context_source'] as const;

/**
 * Whether a transaction's events are divided into its own and those of later write-back. An older recording does not
 * divide them: all of them then count as its time, in every answer.
 */
export function isDivided(transaction: { writtenBack: object | null } | undefined): boolean {
  return transaction?.writtenBack !== null;
}

/**
 * Whether the transaction's own threads caused an event that belongs to it. `isOfContext`: the event's own context is of
 * the transaction; `source` is its `context_source`.
 */
export function isOwnEvent(divided: boolean, isOfContext: boolean, source: number): boolean {
  return !divided || (isOfContext && !isWrittenBack(source));
}

/**
 * Returns a test for the rows of a block: whether the transaction's own threads caused the event. Its other events
 * write back data that it wrote earlier, which is its work but takes none of its time.
 */
export function ownEventTest(
  { block, dictionary }: ScannedBlock,
  transactionId: string,
  divided: boolean,
): (row: number) => boolean {
  if (!divided) return () => true;
  const [contexts, sources] = [column(block, 'context'), column(block, 'context_source')];
  const known = new Map<number, boolean>();
  return (row) => {
    const context = contexts[row]!;
    let isOf = known.get(context);
    if (isOf === undefined) {
      isOf = context !== 0 && dictionary.context(context).transactionId === transactionId;
      known.set(context, isOf);
    }
    return isOwnEvent(divided, isOf, sources[row]!);
  };
}
