/** The clock offsets that a request specifies: either explicit values, or the values that a fleet has measured. */
import { Problem } from '../../base/problem.ts';
import type { AskedOffsets } from '../../contract/replay_requests.ts';
import { type AppliedOffsets, selectMeasuredOffsets } from '../../replay/plan/clock_offsets.ts';
import type { Store } from '../../store/store.ts';

/**
 * Resolves with the clock offsets of the nodes. `nodes` is called only for measured offsets, because it may need a
 * query.
 */
export type OffsetsOfNodes = (nodes: () => Promise<readonly string[]>) => Promise<AppliedOffsets>;

/**
 * Creates an offsets reader. Throws a Problem if the store measures no clocks, so that the request is refused before it
 * waits for a slot.
 */
export function createOffsetsReader({ fleet }: Pick<Store, 'fleet'>, asked: AskedOffsets): OffsetsOfNodes {
  if (asked !== 'measured') return async () => ({ clockOffsetsNs: asked });
  if (!fleet) throw createNotMeasuredProblem();
  return async (nodes) => selectMeasuredOffsets(await fleet.readClocks(await nodes()));
}

/** Creates an offsets reader for one transaction; no offset applies if the transaction is not found. */
export function createTransactionOffsetsReader(
  store: Pick<Store, 'fleet' | 'findTransaction'>,
  asked: AskedOffsets,
  transactionId: string,
): () => Promise<AppliedOffsets> {
  const offsets = createOffsetsReader(store, asked);
  return () => offsets(async () => (await store.findTransaction(transactionId))?.nodes ?? []);
}

function createNotMeasuredProblem(): Problem {
  const message =
    'measured offsets are of a fleet, and this daemon serves recordings: give a map, such as {"db-2": 1500000}';
  return new Problem('invalid_body', `clock_offsets_ns: ${message}`, [{ pointer: '/clock_offsets_ns', message }]);
}
