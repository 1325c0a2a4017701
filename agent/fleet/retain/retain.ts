/**
 * Drops the oldest hours of all tables of a fleet. If the command is killed at any point and run again, it ends in the
 * same state. Its steps are:
 *
 *   copy what pins lack > journal with totals > oldest kept time > losses > drop partitions > clear the journal
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { max } from '../../../daemon/base/bigints.ts';
import type { Connection } from '../../clickhouse/connection/connection.ts';
import { readTypedRows } from '../../clickhouse/connection/rows.ts';
import { ServerError } from '../../clickhouse/connection/server_error.ts';
import type { ConnectionSettings } from '../../clickhouse/connection/settings.ts';
import { type CopiedFrom, copyPinned } from '../../clickhouse/pins/pin_copies.ts';
import { type FleetPin, readPins } from '../../clickhouse/pins/pins.ts';
import { identifier, list, sql, text } from '../../clickhouse/statements/sql.ts';
import { nameDistributedTable } from '../../clickhouse/tables/ddl.ts';
import { readValue, writeValue } from '../../clickhouse/tables/meta.ts';
import { REMEMBERED_MS_MAX, raiseOldest, readOldest } from '../../clickhouse/tables/oldest.ts';
import { UserError } from '../../process/errors.ts';
import { type Dropped, mergeDropped, readDropped, writeDropped } from './losses.ts';
import { dropAll, type Partition, readPartitions, selectDropped } from './partitions.ts';
import { computeFirstKeptHour, HOUR_NS, type Limits } from './plan.ts';
import { type FoundServers, findServers, type Shard } from './shards.ts';

export interface RetainOptions extends Limits {
  isDryRun: boolean;
  nowNs: bigint;
  /** Called with messages for the operator. */
  note(message: string): void;
}

export interface Retained {
  /** Addresses of the shard's servers. */
  urls: string[];
  /** Start of the kept time, in nanoseconds since the epoch; 0 if nothing was dropped yet. */
  oldestNs: bigint;
  hours: number;
  events: bigint;
  bytes: bigint;
  /** Number of pins whose events were copied again. */
  pins: number;
}

/** Applies the limits to all shards. Returns what was dropped from each shard. Throws a UserError. */
export async function retain(settings: readonly ConnectionSettings[], options: RetainOptions): Promise<Retained[]> {
  const servers = await findServers(settings);
  try {
    const limits = choosePossibleLimits(options, servers);
    if (!options.isDryRun) await finishInterrupted(servers.shards, options);
    const firstHour = computeFirstKeptHour(limits, servers.disks ?? [], options.nowNs);
    return await retainFrom(servers.shards, firstHour, options);
  } finally {
    servers.close();
  }
}

function choosePossibleLimits({ ageNs, freePercent, note }: RetainOptions, { disks, version }: FoundServers): Limits {
  if (freePercent === undefined || disks) return { ageNs, freePercent };
  const reason = `ClickHouse ${version} does not say how much of its disk is free: only --age works there`;
  if (ageNs === undefined) throw new UserError(reason);
  note(reason);
  return { ageNs, freePercent: undefined };
}

interface Work {
  shard: Shard;
  partitions: Partition[];
  added: Dropped[];
  journal: Journal;
}

async function retainFrom(shards: readonly Shard[], firstHour: bigint, options: RetainOptions): Promise<Retained[]> {
  const works: Work[] = [];
  for (const shard of shards) {
    const partitions = selectDropped(firstHour, await readPartitions(shard.connection));
    const { known, added } = await readDropped(shard.connection, firstHour);
    works.push({ shard, partitions, added, journal: { firstHour, dropped: mergeDropped([...known, ...added]) } });
  }
  const isNothing = works.every(({ partitions }) => partitions.length === 0);
  const pins = isNothing || options.isDryRun ? [] : await copyLateFromShards(works);
  if (!isNothing && !options.isDryRun) await carryOut(works, options.nowNs);
  const retained: Retained[] = [];
  for (const [i, { shard, partitions, added }] of works.entries())
    retained.push({
      urls: shard.urls,
      oldestNs: await readOldest(shard.connection),
      hours: listEventHours(partitions).length,
      events: added.reduce((sum, { count }) => sum + count, 0n),
      bytes: partitions.reduce((sum, { bytes }) => sum + bytes, 0n),
      pins: pins[i] ?? 0,
    });
  return retained;
}

/** Copies late events for the pins of each shard. A pin is on one shard, but keeps events from all shards. */
async function copyLateFromShards(works: readonly Work[]): Promise<number[]> {
  const hours = [...new Set(works.flatMap(({ partitions }) => listEventHours(partitions)))];
  const copied: number[] = [];
  for (const { shard } of works) {
    const { connection, meta } = shard;
    const from = { bucketNs: meta.bucketNs, isCluster: meta.cluster !== undefined };
    copied.push(await copyLate(connection, from, hours));
  }
  return copied;
}

function listEventHours(partitions: readonly Partition[]): bigint[] {
  return partitions.filter(({ table }) => table === 'event').map(({ number }) => number);
}

async function finishInterrupted(shards: readonly Shard[], { nowNs, note }: RetainOptions): Promise<void> {
  const works: { shard: Shard; journal: Journal }[] = [];
  for (const shard of shards) {
    const journal = await readJournal(shard.connection);
    if (journal) works.push({ shard, journal });
  }
  if (works.length === 0) return;
  note('going on with what was interrupted');
  await apply(shards, works, nowNs);
}

async function carryOut(works: readonly Work[], nowNs: bigint): Promise<void> {
  for (const { shard, journal } of works) await writeJournal(shard.connection, journal);
  await apply(
    works.map(({ shard }) => shard),
    works,
    nowNs,
  );
}

/**
 * Raises the oldest kept time on all shards, waits until all readers use the new time, and then drops the partitions.
 */
async function apply(
  shards: readonly Shard[],
  works: readonly { shard: Shard; journal: Journal }[],
  nowNs: bigint,
): Promise<void> {
  const firstHour = works.map(({ journal }) => journal.firstHour).reduce(max);
  for (const { connection } of shards) await raiseOldest(connection, firstHour * HOUR_NS, nowNs);
  await sleep(2 * REMEMBERED_MS_MAX);
  for (const { shard, journal } of works) {
    const { connection } = shard;
    await writeDropped(connection, journal.dropped);
    await dropAll(connection, selectDropped(journal.firstHour, await readPartitions(connection)));
    await clearJournal(connection);
  }
}

/*
 * The journal describes the retention that is about to run on a shard. It is written before anything is changed, and
 * has totals instead of increments. So a retention that is repeated after an interruption ends in the same state and
 * counts nothing twice.
 */

interface Journal {
  /** The first hour that is kept. */
  firstHour: bigint;
  /** The total loss of each node after the hours are dropped. */
  dropped: readonly Dropped[];
}

const KEY = 'retaining';

/** Returns the journal of an interrupted retention; undefined if there is none. Throws a ServerError. */
async function readJournal(connection: Connection): Promise<Journal | undefined> {
  const value = await readValue(connection, KEY);
  if (value === undefined || value === '') return undefined;
  try {
    const { first_hour, dropped } = JSON.parse(value) as { first_hour: string; dropped: string[][] };
    return {
      firstHour: BigInt(first_hour),
      dropped: dropped.map(([node, from, to, count]) => ({
        node: node!,
        fromNs: BigInt(from!),
        toNs: BigInt(to!),
        count: BigInt(count!),
      })),
    };
  } catch {
    throw new ServerError('malformed', 'blocked', `the value ${KEY} of the table meta is not of kreplay`);
  }
}

async function writeJournal(connection: Connection, { firstHour, dropped }: Journal): Promise<void> {
  const lines = dropped.map(({ node, fromNs, toNs, count }) => [node, ...[fromNs, toNs, count].map(String)]);
  await write(connection, JSON.stringify({ first_hour: String(firstHour), dropped: lines }));
}

function clearJournal(connection: Connection): Promise<void> {
  return write(connection, '');
}

function write(connection: Connection, value: string): Promise<void> {
  return writeValue(connection, KEY, value, BigInt(Date.now()) * 1_000_000n);
}

/* Copies events that arrived after their pins were made, before the hours of these events are dropped. */

/** Maximum number of ids in one statement. A server accepts 256 KiB, and each byte of an id takes two hex digits. */
const IDS_MAX = 100;

/**
 * Copies the events of each pin on this shard that covers any of `hours`, which some shard is about to drop. Returns
 * the number of pins that were copied. Throws a ServerError.
 */
async function copyLate(connection: Connection, from: CopiedFrom, hours: readonly bigint[]): Promise<number> {
  const pins = await readPins(connection, { isCluster: false });
  let copied = 0;
  for (let i = 0; i < pins.length; i += IDS_MAX) {
    const some = pins.slice(i, i + IDS_MAX);
    const ends = await readTransactionEnds(connection, from, some);
    for (const pin of some) {
      const endNs = ends.get(pin.transactionId) ?? 0n;
      const first = pin.fromNs / HOUR_NS;
      const last = (endNs > pin.endNs ? endNs : pin.endNs) / HOUR_NS;
      if (!hours.some((hour) => hour >= first && hour <= last)) continue;
      await copyPinned(connection, from, pin);
      copied++;
    }
  }
  return copied;
}

/** Returns, for each transaction, the start of its last event that has arrived. */
async function readTransactionEnds(
  connection: Connection,
  { isCluster }: CopiedFrom,
  pins: readonly FleetPin[],
): Promise<Map<string, bigint>> {
  const table = identifier(isCluster ? nameDistributedTable('by_id') : 'by_id');
  const ids = list(pins.map(({ transactionId }) => text(transactionId)));
  const statement = sql`SELECT id, max(t_max) AS last FROM ${table} WHERE kind = 1 AND id IN (${ids}) GROUP BY id`;
  const rows = await readTypedRows(connection, statement, { id: 'text', last: 'number' });
  return new Map(rows.map(({ id, last }) => [id, last]));
}
