/** Decides which hours of a fleet are dropped: the oldest hours, until the limits on age and disk space are met. */
import { max } from '../../../daemon/base/bigints.ts';

export const HOUR_NS = 3_600_000_000_000n;

/** A disk of a server. */
export interface DiskSpace {
  freeBytes: bigint;
  totalBytes: bigint;
  /** Bytes of the tables on this disk, by hour. */
  bytesByHour: ReadonlyMap<bigint, bigint>;
}

export interface Limits {
  ageNs: bigint | undefined;
  /** Share of each disk that has to be free, in percent. */
  freePercent: number | undefined;
}

/** Number of hours that are always kept: the current hour and the hour before it. */
const HOURS_KEPT = 2n;

/** Returns the first hour that is kept. All earlier hours are dropped. */
export function computeFirstKeptHour(
  { ageNs, freePercent }: Limits,
  disks: readonly DiskSpace[],
  nowNs: bigint,
): bigint {
  const latest = nowNs / HOUR_NS - HOURS_KEPT + 1n;
  const byAge = ageNs === undefined || ageNs > nowNs ? 0n : (nowNs - ageNs) / HOUR_NS;
  const byDisk = freePercent === undefined ? [] : disks.map((disk) => computeFirstFittingHour(disk, freePercent));
  const wanted = [byAge, ...byDisk].reduce(max);
  return wanted < latest ? wanted : latest;
}

function computeFirstFittingHour({ freeBytes, totalBytes, bytesByHour }: DiskSpace, percent: number): bigint {
  let missing = (totalBytes * BigInt(percent)) / 100n - freeBytes;
  let first = 0n;
  for (const [hour, bytes] of [...bytesByHour].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (missing <= 0n) return first;
    missing -= bytes;
    first = hour + 1n;
  }
  return first;
}
