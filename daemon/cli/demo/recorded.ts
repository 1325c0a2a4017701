/** Queries a daemon for the demo's transaction, once the agent has recorded all of it. */

import { setTimeout as sleep } from 'node:timers/promises';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import type { ExplanationAnswer, ListedTransaction } from '../../contract/received.ts';
import { callDaemon, readJson } from '../client/connection.ts';
import { SYNCS, TRANSACTION } from './workload.ts';

/** Time to wait for an event. Events can be queried within 250 ms of their end, but the host may be busy. */
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
 * `fromNs` and `toNs` are the times between which the transaction ran. Events are recorded in the order of their ends,
 * and the transaction's last event is a sync: once all syncs are recorded, all events are. It is known whether events
 * are missing once the recording extends to the transaction's end.
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
    // The program ended shortly after its last sync.
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
