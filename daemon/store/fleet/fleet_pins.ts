/**
 * Pins in the tables of a fleet. Pinned events are copied to tables of their own, so that retention can still drop
 * whole hours of the other tables.
 */
import { requireSingleRow } from '../../../agent/clickhouse/connection/rows.ts';
import { ServerError } from '../../../agent/clickhouse/connection/server_error.ts';
import { copyPinned, countPinned } from '../../../agent/clickhouse/pins/pin_copies.ts';
import { computePinNumber, dropPin, type FleetPin, readPins, writePin } from '../../../agent/clickhouse/pins/pins.ts';
import { sql } from '../../../agent/clickhouse/statements/sql.ts';
import type { PinRequest } from '../../../agent/recording/retain/pins.ts';
import { Problem } from '../../base/problem.ts';
import type { Pin } from '../store.ts';
import { chooseTableSql, type Fleet, readRows } from './fleet.ts';
import { findFleetTransactions } from './transactions_by_id.ts';

export interface PinLimits {
  pinsMax: number;
  /** Maximum number of events that all pins keep together. */
  eventsMax: number;
}

export const PIN_LIMITS: PinLimits = { pinsMax: 1000, eventsMax: 50_000_000 };

/** Error codes with which a server refuses a statement of an account that may only read or that lacks a right. */
const REFUSED: readonly unknown[] = [164, 497];

/** Pins a transaction. If it is already pinned, the pin covers the longer of the two periods before the transaction. */
export async function pinIn(fleet: Fleet, request: PinRequest, limits: PinLimits): Promise<Pin[] | undefined> {
  const { transactionId, beforeNs, nowNs } = request;
  const summary = (await findFleetTransactions(fleet, [transactionId])).get(transactionId);
  if (!summary) return undefined;
  const [known] = await readPins(fleet.connection, { ...fleet, transactionId });
  const startNs = summary.firstTimestampNs;
  const fromNs = startNs > beforeNs ? startNs - beforeNs : 0n;
  const wanted: FleetPin = {
    pin: computePinNumber(transactionId),
    transactionId,
    nodes: summary.nodes,
    fromNs: known && known.fromNs < fromNs ? known.fromNs : fromNs,
    startNs,
    endNs: summary.lastEndNs,
    pinnedNs: known?.pinnedNs ?? nowNs,
  };
  await refuseTooMany(fleet, wanted, known, limits);
  // The pin is written before its events are copied. Retention reads the pins before it drops events, and itself copies
  // pinned events that have not been copied yet.
  await withWriteErrors(async () => {
    await writePin(fleet.pinning, wanted);
    await copyPinned(fleet.pinning, fleet, wanted);
  });
  return readFleetPins(fleet, transactionId);
}

async function refuseTooMany(
  fleet: Fleet,
  wanted: FleetPin,
  known: FleetPin | undefined,
  { pinsMax, eventsMax }: PinLimits,
): Promise<void> {
  if (!known && (await readPins(fleet.connection, fleet)).length >= pinsMax)
    throw new Problem('pins_full', `${pinsMax} transactions are pinned already: unpin others`);
  const others = sql`SELECT toUInt64(count()) AS events FROM ${chooseTableSql(fleet, 'pinned_event')} WHERE pin != ${wanted.pin}`;
  const kept = requireSingleRow(await readRows(fleet, others, { events: 'number' })).events;
  const added = await countPinned(fleet.connection, fleet, wanted);
  if (kept + added > BigInt(eventsMax))
    throw new Problem(
      'pins_full',
      `pinned transactions would keep ${kept + added} events, at most ${eventsMax} are allowed: unpin others, or pin less of what came before`,
    );
}

/** Returns whether the transaction was pinned. */
export async function unpinIn(fleet: Fleet, transactionId: string): Promise<boolean> {
  const [known] = await readPins(fleet.connection, { ...fleet, transactionId });
  if (!known) return false;
  await withWriteErrors(() => dropPin(fleet.pinning, known.pin));
  return true;
}

/** Returns one pin for each node of each pinned transaction. */
export async function readFleetPins(fleet: Fleet, transactionId?: string): Promise<Pin[]> {
  const pins = await readPins(fleet.connection, { ...fleet, transactionId });
  return pins.flatMap(({ nodes, ...pin }) =>
    nodes.map((node) => ({ transactionId: pin.transactionId, node, fromNs: pin.fromNs, pinnedNs: pin.pinnedNs })),
  );
}

async function withWriteErrors<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ServerError) || !REFUSED.includes(error.code)) throw error;
    throw new Problem(
      'recording_not_writable',
      `the account of the daemon may not write pins: set fleet-pin-user and fleet-pin-password-file to one that may, such as kr_pin (${error.message})`,
    );
  }
}
