/**
 * Drops the oldest hours of all tables of a fleet. Killed at any point and run again, it ends in the same state:
 *
 *   copy what pins lack > journal with totals > oldest kept time > losses > drop partitions > clear the journal
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { max } from '../../../daemon/base/bigints.ts';
import type { ConnectionSettings } from '../../clickhouse/connection/settings.ts';
import { REMEMBERED_MS_MAX, raiseOldest, readOldest } from '../../clickhouse/tables/oldest.ts';
import { UserError } from '../../process/errors.ts';
import { clearJournal, type Journal, readJournal, writeJournal } from './journal.ts';
import { copyLate } from './late_pins.ts';
import { type Dropped, droppedAt, together, writeDropped } from './losses.ts';
import { dropAll, droppedBefore, type Partition, partitionsAt } from './partitions.ts';
import { firstKeptHour, type Limits } from './plan.ts';
import { type FoundServers, findServers, type Shard } from './shards.ts';

export interface RetainOptions extends Limits {
  isDryRun: boolean;
  nowNs: bigint;
  /** Called with what an operator should know. */
  note(message: string): void;
}

export interface Retained {
  /** Servers of the shard. */
  urls: string[];
  /** What began before is not kept; 0 if nothing was dropped yet. */
  oldestNs: bigint;
  hours: number;
  events: bigint;
  bytes: bigint;
  /** Pins for which something was copied again. */
  pins: number;
}

const HOUR_NS = 3_600_000_000_000n;

/** Throws a UserError. */
export async function retain(settings: readonly ConnectionSettings[], options: RetainOptions): Promise<Retained[]> {
  const servers = await findServers(settings);
  try {
    const limits = possibleLimits(options, servers);
    if (!options.isDryRun) await finishInterrupted(servers.shards, options);
    const firstHour = firstKeptHour(limits, servers.disks ?? [], options.nowNs);
    return await retainFrom(servers.shards, firstHour, options);
  } finally {
    servers.close();
  }
}

function possibleLimits({ ageNs, freePercent, note }: RetainOptions, { disks, version }: FoundServers): Limits {
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
    const partitions = droppedBefore(firstHour, await partitionsAt(shard.connection));
    const { known, added } = await droppedAt(shard.connection, firstHour);
    works.push({ shard, partitions, added, journal: { firstHour, dropped: together([...known, ...added]) } });
  }
  const isNothing = works.every(({ partitions }) => partitions.length === 0);
  const pins = isNothing || options.isDryRun ? [] : await copyLateIn(works);
  if (!isNothing && !options.isDryRun) await carryOut(works, options.nowNs);
  const retained: Retained[] = [];
  for (const [i, { shard, partitions, added }] of works.entries())
    retained.push({
      urls: shard.urls,
      oldestNs: await readOldest(shard.connection),
      hours: hoursOf(partitions).length,
      events: added.reduce((sum, { count }) => sum + count, 0n),
      bytes: partitions.reduce((sum, { bytes }) => sum + bytes, 0n),
      pins: pins[i] ?? 0,
    });
  return retained;
}

/** A pin is on one shard, and what it keeps comes from all. */
async function copyLateIn(works: readonly Work[]): Promise<number[]> {
  const hours = [...new Set(works.flatMap(({ partitions }) => hoursOf(partitions)))];
  const copied: number[] = [];
  for (const { shard } of works) {
    const { connection, meta } = shard;
    const from = { bucketNs: meta.bucketNs, isCluster: meta.cluster !== undefined };
    copied.push(await copyLate(connection, from, hours));
  }
  return copied;
}

function hoursOf(partitions: readonly Partition[]): bigint[] {
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

/** Readers know the oldest kept time before anything goes, on all shards. */
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
    await dropAll(connection, droppedBefore(journal.firstHour, await partitionsAt(connection)));
    await clearJournal(connection);
  }
}
