/** Copies a transaction of a fleet for one command, and removes the copy when the command ends. */
import { rmSync } from 'node:fs';
import { createPrivateFolder } from '../../../agent/process/surroundings.ts';
import { ExportError } from '../../export/errors.ts';
import { closeFleet, type Fleet } from '../../store/fleet/fleet.ts';
import { type FleetSettings, openFleet } from '../../store/fleet/open_fleet.ts';
import { findFleetTransactions } from '../../store/fleet/transactions_by_id.ts';
import { type CopiedFile, copyTransactions } from './copy.ts';

/**
 * Copies a transaction into temporary files and runs `work` on them. Throws a UserError, for example if the fleet does
 * not have the transaction.
 */
export async function runWithFleetCopies(
  settings: FleetSettings,
  transactionId: string,
  work: (copies: readonly CopiedFile[]) => Promise<void>,
): Promise<void> {
  const folder = createPrivateFolder('kreplay-export-');
  let fleet: Fleet | undefined;
  try {
    fleet = await openFleet(settings);
    const found = await findFleetTransactions(fleet, [transactionId]);
    if (found.size === 0) throw new ExportError(`the fleet has no transaction ${transactionId}: check the id`);
    await work(await copyTransactions(fleet, [...found.values()], folder, new AbortController().signal));
  } finally {
    rmSync(folder, { recursive: true, force: true });
    if (fleet) closeFleet(fleet);
  }
}
