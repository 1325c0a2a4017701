/** What a daemon says of the demo's transaction, once its agent has recorded all of it. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { callDaemon, readJson } from '../client/connection.ts';
import { SYNCS, TRANSACTION } from './workload.ts';

/** An event can be asked for within 250 ms of its end; the host may be busy. */
const PATIENCE_MS = 5000;
const LOOK_MS = 50;

interface Transaction {
  duration_ns: number | bigint;
  first_timestamp_ns: number | bigint;
  services: string[];
}

export interface Recorded {
  transaction: Transaction;
  events: ApiEvent[];
  /** Nothing that it did is missing. */
  complete: boolean;
}

/**
 * `fromNs`, `toNs`: when it ran. Events are recorded in the order of their ends, and the last that it did was a sync: with
 * that one everything is there. That nothing else is missing is known when all until its end is recorded.
 */
export async function waitForRecorded(url: string, fromNs: bigint, toNs: bigint): Promise<Recorded> {
  const query = new URLSearchParams({ transaction_id: TRANSACTION, from: `${fromNs}`, to: `${toNs}`, limit: '10000' });
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const answer = (await readJson(await callDaemon(url, { path: `/api/events?${query}` }))) as {
      events: ApiEvent[];
      coverage: { complete: boolean; recorded_until: number | bigint | null };
    };
    const { recorded_until: until } = answer.coverage;
    const isAll = answer.events.filter(({ event_type }) => event_type === 'sys_sync').length === SYNCS;
    // The program ended a little after its last sync.
    const isThere = isAll && until !== null && BigInt(until) >= toNs;
    if (isThere || performance.now() > deadline) {
      const transaction = await readJson(await callDaemon(url, { path: `/api/transactions/${TRANSACTION}` }));
      const complete = isThere && answer.coverage.complete;
      return { transaction: transaction as Transaction, events: answer.events, complete };
    }
    await sleep(LOOK_MS);
  }
}
