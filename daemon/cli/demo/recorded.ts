/** Queries a daemon for the demo's transaction, after the agent has recorded all of it. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import type { ExplanationAnswer, ListedTransaction } from '../../contract/received.ts';
import { callDaemon, readJson } from '../client/connection.ts';
import { SYNCS, TRANSACTION } from './workload.ts';

/**
 * Maximum time to wait until all events are recorded. A query finds an event within 250 ms of its end, but the host may
 * be busy.
 */
const PATIENCE_MS = 5000;
const POLL_MS = 50;

/** Number of slow calls that the demo shows. */
const SLOWEST = 5;

export interface RecordedTransaction {
  summary: ListedTransaction;
  explanation: ExplanationAnswer;
  /** Whether no event of the transaction is missing. */
  complete: boolean;
}

/**
 * Waits until the whole transaction is recorded, but at most PATIENCE_MS, and returns it. The transaction ran between
 * `fromNs` and `toNs`. Events are recorded in the order of their ends, and the last event is a sync, so all events are
 * recorded once all syncs are. Whether events are missing is known once the recording extends to `toNs`.
 */
export async function waitForRecorded(url: string, fromNs: bigint, toNs: bigint): Promise<RecordedTransaction> {
  const query = new URLSearchParams({ transaction_id: TRANSACTION, from: `${fromNs}`, to: `${toNs}`, limit: '10000' });
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const answer = (await readJson(await callDaemon(url, { path: `/api/events?${query}` }))) as {
      events: ApiEvent[];
      coverage: { complete: boolean; recorded_until: number | bigint | null };
    };
    const { recorded_until: until } = answer.coverage;
    const isAll = answer.events.filter(({ event_type }) => event_type === 'sys_sync').length === SYNCS;
    // The recording must also extend to `toNs`, which is shortly after the last sync.
    const isThere = isAll && until !== null && BigInt(until) >= toNs;
    if (isThere || performance.now() > deadline) {
      const path = `/api/transactions/${TRANSACTION}/summary?limit=${SLOWEST}`;
      const summary = (await readJson(await callDaemon(url, { path }))) as ListedTransaction;
      const explained = await callDaemon(url, { path: `/api/transactions/${TRANSACTION}/explain` });
      const explanation = (await readJson(explained)) as ExplanationAnswer;
      return { summary, explanation, complete: isThere && answer.coverage.complete };
    }
    await sleep(POLL_MS);
  }
}
