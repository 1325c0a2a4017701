/** Copies of a transaction of a fleet for one command, which are gone when it ends. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ExportError } from '../../export/errors.ts';
import { closeFleet } from '../../store/fleet/fleet.ts';
import { type FleetSettings, openFleet } from '../../store/fleet/open_fleet.ts';
import { transactionsById } from '../../store/fleet/transactions_by_id.ts';
import { type CopiedFile, copyTransactions } from './copy.ts';

/** Throws a UserError, also for a transaction that the fleet does not have. */
export async function withFleetCopies(
  settings: FleetSettings,
  transactionId: string,
  work: (copies: readonly CopiedFile[]) => Promise<void>,
): Promise<void> {
  const fleet = await openFleet(settings);
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-export-'));
  try {
    const found = await transactionsById(fleet, [transactionId]);
    if (found.size === 0) throw new ExportError(`the fleet has no transaction ${transactionId}: check the id`);
    await work(await copyTransactions(fleet, [...found.values()], folder, new AbortController().signal));
  } finally {
    rmSync(folder, { recursive: true, force: true });
    closeFleet(fleet);
  }
}
