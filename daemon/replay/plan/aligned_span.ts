/** Computes the duration of a transaction with the clocks of its nodes aligned. */
import { max, min } from '../../base/bigints.ts';
import { getBigColumn } from '../../store/blocks/scanned_block.ts';
import type { Recordings } from '../../store/embedded/recordings.ts';
import type { EventFilter } from '../../store/store.ts';

/**
 * Computes the span from the earliest start to the latest end of a transaction's events. On each node, only the end of
 * the event that starts last counts. `offsetNs` aligns the clocks of the nodes.
 */
export function computeAlignedSpanNs(
  recordings: Recordings,
  transactionId: string,
  nodes: readonly string[],
  offsetNs: (node: string) => bigint,
): bigint {
  const times = nodes.flatMap((node) => {
    const filter = { transactionId, nodes: [node] };
    const first = findOutermost(recordings, filter, 'asc');
    const last = findOutermost(recordings, filter, 'desc');
    return first && last ? [first.startNs + offsetNs(node), last.endNs + offsetNs(node)] : [];
  });
  return times.reduce(max, times[0] ?? 0n) - times.reduce(min, times[0] ?? 0n);
}

/** Returns the times of the event that starts first (`asc`) or last (`desc`); undefined if there is no event. */
export function findOutermost(
  recordings: Recordings,
  filter: EventFilter,
  order: 'asc' | 'desc',
): { startNs: bigint; endNs: bigint } | undefined {
  const columns = ['timestamp_ns', 'duration_ns'];
  for (const { block } of recordings.scan({ filter, order, limit: 1, columns })) {
    if (block.rowCount === 0) continue;
    const startNs = getBigColumn(block, 'timestamp_ns')[0]!;
    return { startNs, endNs: startNs + getBigColumn(block, 'duration_ns')[0]! };
  }
  return undefined;
}
