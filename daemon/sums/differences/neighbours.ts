/**
 * Finds the neighbours of transactions: other services, or commands if a service is not known, that had requests under
 * way on a device when the transaction began to wait for the device.
 *
 *   transaction         [ call   [== request ==]  [= request =] ]
 *   backup        [== request ==]
 *   cron                                  [= request =]
 *
 * Here `backup` is a neighbour but `cron` is not, because only the first moment on each device counts. If all moments
 * counted, a transaction that takes longer or has more requests would meet more requests of others by chance alone, and
 * all slow transactions would seem to have neighbours. Requests that carry data of the transaction do not count, nor do
 * requests of services that take part in it.
 *
 * A neighbour is tested, node by node, only among the transactions that may have it: transactions that waited for the
 * device and in which the neighbour's service takes no part. Otherwise, if only slow transactions use a device, each
 * neighbour on that device would seem to distinguish them from fast transactions.
 */

import { toWords } from '../../../agent/recording/words64.ts';
import { findFirstAbove } from '../../base/binary_search.ts';
import { growArray } from '../../base/growing_array.ts';
import { getBigColumn, type ScannedBlock } from '../../store/blocks/scanned_block.ts';
import { type EventRows, ROLES } from './kept_events.ts';
import type { FieldValue, Profile, Profiles } from './profiles.ts';

/**
 * Maximum product of the numbers of transactions and kinds: each pair may have to be examined, which takes some seconds
 * at this limit. Above the limit, neighbours are left out.
 */
const CARRIED_MAX = 2 ** 26;
/** Maximum number of requests whose times are kept, at 16 bytes each. Above the limit, neighbours are left out. */
const REQUESTS_MAX = 2_000_000;
const NONE = -1;

/** Requests of one service or command on one device of a node: a possible neighbour. */
interface NeighbourKind {
  place: number;
  name: number;
  /** Number of the kind's value, which is the same on all nodes. */
  value: number;
}

export interface NeighbourFinder {
  readonly values: readonly FieldValue[];
  /** Maps each kind of request to the number of its value. */
  readonly valueOfKind: readonly number[];
  /** Begins a transaction; the names of its own events do not count as its neighbours. */
  begin(rows: EventRows): void;
  /**
   * Adds the time `at`, at which the transaction began to wait for the device of a profile. Like the times of the rows,
   * it may be a rank.
   */
  addWait(profile: number, at: number): void;
  /**
   * Calls `onKind` for each kind that the transaction may have as a neighbour. `getTime` converts a time of the rows to
   * a time relative to the base.
   */
  pass(rows: EventRows, getTime: (at: number) => number, onKind: (kind: number, isNeighbour: boolean) => void): void;
}

export interface GatheredNeighbours {
  /** Returns a function that adds a request, given its row and its profile. */
  open(scanned: ScannedBlock): (row: number, profile: number) => void;
  /**
   * Returns the finder; undefined if there are too many requests or kinds, or if services or commands were left out.
   * Yields so that other work can run.
   */
  finish(transactionCount: number): Generator<void, NeighbourFinder | undefined>;
}

/** Gathers requests and finds neighbours; times are relative to `baseNs`. */
export function gatherNeighbours(profiles: Profiles, baseNs: bigint): GatheredNeighbours {
  const times = requestTimes(baseNs);
  const { kinds, values, getKind, getName } = createRequestKinds(profiles);
  let count = 0;

  return {
    open(scanned) {
      const add = times.open(scanned);
      return (row, profile) => {
        const kind = getKind(profile);
        if (kind !== NONE && ++count <= REQUESTS_MAX) add(row, kind);
      };
    },
    *finish(transactionCount) {
      const isNamed = !profiles.leftOut.has('service') && !profiles.leftOut.has('comm');
      if (!isNamed || count > REQUESTS_MAX || kinds.length * transactionCount > CARRIED_MAX) return undefined;
      yield* times.sort();
      const requests = { kinds, getKind, getName, countAt: times.countAt };
      return { values, valueOfKind: kinds.map(({ value }) => value), ...findNeighbours(requests) };
    },
  };
}

interface Requests {
  kinds: readonly NeighbourKind[];
  getKind: (profile: number) => number;
  getName: (profile: number) => number;
  countAt: NeighbourTimes['countAt'];
}

function findNeighbours({
  kinds,
  getKind,
  getName,
  countAt,
}: Requests): Pick<NeighbourFinder, 'begin' | 'addWait' | 'pass'> {
  const kindsOf = [...Map.groupBy(kinds.keys(), (kind) => kinds[kind]!.place)].reduce<number[][]>(
    (all, [place, some]) => Object.assign(all, { [place]: some }),
    [],
  );
  /** Maps each name to the last transaction in which it took part. */
  const lastTransactions: number[] = [];
  /** Maps each place (a device of a node) to the time at which the transaction first waited for it. */
  const waits = new Map<number, number>();
  /**
   * Maps each kind to the number of its requests that carry data of the transaction and were under way when the
   * transaction first waited for their device.
   */
  const carried = new Map<number, number>();
  let transaction = 0;

  function countCarried({ length, roles, profiles, starts, ends }: EventRows): void {
    for (let row = 0; row < length; row++) {
      const kind = roles[row] === ROLES.own ? NONE : getKind(profiles[row]!);
      const at = kind === NONE ? undefined : waits.get(kinds[kind]!.place);
      if (at !== undefined && starts[row]! <= at && at < ends[row]!) carried.set(kind, (carried.get(kind) ?? 0) + 1);
    }
  }

  return {
    begin({ length, roles, profiles }) {
      transaction++;
      waits.clear();
      carried.clear();
      for (let row = 0; row < length; row++)
        if (roles[row] === ROLES.own) lastTransactions[getName(profiles[row]!)] = transaction;
    },
    addWait(profile, at) {
      const kind = getKind(profile);
      if (kind === NONE) return;
      const { place } = kinds[kind]!;
      if (at < (waits.get(place) ?? Infinity)) waits.set(place, at);
    },
    pass(rows, getTime, onKind) {
      if (waits.size === 0) return;
      countCarried(rows);
      for (const [place, at] of waits) {
        for (const kind of kindsOf[place]!) {
          if (lastTransactions[kinds[kind]!.name] === transaction) continue;
          onKind(kind, countAt(kind, getTime(at)) > (carried.get(kind) ?? 0));
        }
      }
    },
  };
}

/** Assigns numbers to the kinds of requests and to the names of events, by their profiles. */
function createRequestKinds({ profiles, values: fieldValues }: Profiles) {
  const kinds: NeighbourKind[] = [];
  const values: FieldValue[] = [];
  const numbers = new Map<string, number>();
  const [kindByProfile, nameByProfile]: [number[], number[]] = [[], []];
  const counts = { name: 0, place: 0 };

  function assignNumber(texts: readonly string[], next: () => number): number {
    const key = JSON.stringify(texts);
    const number = numbers.get(key) ?? next();
    numbers.set(key, number);
    return number;
  }

  function findFieldText({ values: own }: Profile, field: FieldValue['field']): string {
    const value = own.find((one) => fieldValues[one]!.field === field);
    return value === undefined ? '' : fieldValues[value]!.value;
  }

  const chooseName = (profile: Profile) => findFieldText(profile, 'service') || findFieldText(profile, 'comm');
  const numberOfName = (name: string) => assignNumber(['name', name], () => counts.name++);

  function addKind(profile: Profile, device: string): number {
    const name = chooseName(profile);
    const place = assignNumber(['place', profile.node, device], () => counts.place++);
    const value = assignNumber(
      ['value', name, device],
      () => values.push({ field: 'neighbour', value: name, device }) - 1,
    );
    return kinds.push({ place, name: numberOfName(name), value }) - 1;
  }

  function numberOfKind(profile: Profile): number {
    if (profile.device === NONE) return NONE;
    const device = fieldValues[profile.device]!.value;
    return assignNumber(['kind', profile.node, device, chooseName(profile)], () => addKind(profile, device));
  }

  return {
    kinds,
    values,
    getKind: (profile: number) => (kindByProfile[profile] ??= numberOfKind(profiles[profile]!)),
    getName: (profile: number) => (nameByProfile[profile] ??= numberOfName(chooseName(profiles[profile]!))),
  };
}

/* Given the times of many requests, counts how many requests of each kind were under way at a given moment. */

const WORD = 2 ** 32;

/**
 * Starts and ends of requests, sorted separately: the number of requests under way is the number that have begun minus
 * the number that have ended. Times are relative to a base, and exact within 104 days of it.
 */
interface GrowingTimes {
  count: number;
  starts: Float64Array;
  ends: Float64Array;
}

interface NeighbourTimes {
  /** Returns a function that adds a request, given its row, to a kind. */
  open(scanned: ScannedBlock): (row: number, kind: number) => void;
  /**
   * Sorts the times; must be called after the last request was added and before the first call of `countAt`. Yields so
   * that other work can run.
   */
  sort(): Generator<void, void>;
  /** Returns the number of requests of a kind that had begun by `at` and ended later. */
  countAt(kind: number, at: number): number;
}

function requestTimes(baseNs: bigint): NeighbourTimes {
  const [baseHigh, baseLow] = [Number(baseNs >> 32n), Number(baseNs & 0xffff_ffffn)];
  const kinds: GrowingTimes[] = [];

  return {
    open({ block }) {
      const at = toWords(getBigColumn(block, 'timestamp_ns'));
      const durations = toWords(getBigColumn(block, 'duration_ns'));
      return (row, kind) => {
        kinds[kind] ??= { count: 0, starts: new Float64Array(8), ends: new Float64Array(8) };
        const times = kinds[kind];
        if (times.count === times.starts.length) grow(times);
        const start = (at[row * 2 + 1]! - baseHigh) * WORD + (at[row * 2]! - baseLow);
        times.starts[times.count] = start;
        times.ends[times.count++] = start + durations[row * 2 + 1]! * WORD + durations[row * 2]!;
      };
    },
    *sort() {
      for (const { starts, ends, count } of kinds) {
        starts.subarray(0, count).sort();
        ends.subarray(0, count).sort();
        yield;
      }
    },
    countAt(kind, at) {
      const { starts, ends, count } = kinds[kind]!;
      return findFirstAbove(starts, at, 0, count) - findFirstAbove(ends, at, 0, count);
    },
  };
}

function grow(times: GrowingTimes): void {
  times.starts = growArray(times.starts);
  times.ends = growArray(times.ends);
}
