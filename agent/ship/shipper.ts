/**
 * Ships a recording group after group. The boundary of each group is stored in the position before the group is sent,
 * so that the same group is sent again if this process, the server or the network fails.
 */

import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { max, min, U64_MAX } from '../../daemon/base/bigints.ts';
import type { Connection } from '../clickhouse/connection/connection.ts';
import { ServerError } from '../clickhouse/connection/server_error.ts';
import { countGivenNumbers } from '../recording/format/numbers.ts';
import type { RecordingReader } from '../recording/read/reader.ts';
import { readFileIdentity } from '../recording/write/own_files.ts';
import {
  askClock,
  askNode,
  askShard,
  askStart,
  askVersion,
  checkClaim,
  checkSchema,
  checkShard,
  type KnownNode,
} from './contact.ts';
import { chooseNextGroup, groupSizes, rebuildGroup } from './groups.ts';
import { type Persisting, persist } from './persist.ts';
import {
  advancePosition,
  claimPosition,
  computeSettledNumber,
  rewindPosition,
  type ShippingPosition,
  toShardPosition,
  writePosition,
} from './position.ts';
import { NOTHING_WAITS, type ShippingBacklog } from './progress.ts';
import { groupRows } from './rows/group_rows.ts';
import {
  createSender,
  type Destination,
  type Sending,
  type SentGroup,
  sendGroup,
  sendSide,
  sendTable,
} from './send_group.ts';
import { encodeNodeTable, type ShippingLoss } from './side_rows.ts';

export interface ShipperOptions extends Persisting {
  /** Folder of the position file. */
  folder: string;
  connection: Connection;
  quorum: number | undefined;
  compression: Destination['compression'];
  eventsMax: number;
  /** Time after which sealed events are sent, however few they are. */
  flushMs: number;
  /** Rate at which a backlog is sent, as a multiple of the rate of recording. */
  catchUp: number;
  /** Whether to take over a recording that another process has shipped. */
  claims: boolean;
  /** Whether to end when all events that are sealed at the start have arrived. */
  once: boolean;
}

/** Maximum interval between the node's reports of its state to the server. */
const HEARTBEAT_MS = 30_000;
/** The lowest rate at which a backlog is sent, in events a second. */
const CATCH_UP_RATE_MIN = 50_000;
/** A server counts as restarted if its start time moved by more than this. Smaller changes may be clock errors. */
const RESTART_MS = 5_000;
const POLL_MS = 1_000;
const SEEN_EVERY_MS = 10_000;
/**
 * Maximum time to wait for an unreachable replica. A replica that is away for longer may never come back, so events
 * that only this replica has count as lost.
 */
export const BEHIND_MS_MAX = 600_000;
/** Time after which any other shipper that started at the same moment must have claimed the recording. */
const ALONE_MS = 100;

/**
 * Ships a recording. Returns the position when another recording has replaced this recording or, with `once`, when all
 * events have arrived.
 */
export async function shipRecording(
  options: ShipperOptions,
  { reader, path }: { reader: RecordingReader; path: string },
  begun: ShippingPosition,
): Promise<ShippingPosition> {
  const { progress, signal, log } = options;
  const identity = readFileIdentity(path);
  const source = { reader, rows: groupRows(reader) };
  const untilNumber = options.once ? reader.ends().sealedEnd : Number.POSITIVE_INFINITY;
  const rate = createLiveRate();
  const sizes = groupSizes(options.eventsMax);
  const send = createPatientSender(source, signal);
  let position = begun;
  let [isWritten, claims] = [true, options.claims];
  let destination: Destination | undefined;
  let [heartbeatMs, seenMs] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY];

  progress.node = reader.node;
  progress.waiting = () => readWaiting(reader, position.number);

  function moveTo(next: ShippingPosition): void {
    position = next;
    isWritten = false;
    keepPosition();
  }

  /**
   * Writes the position if it has changed. If this fails, an acknowledged group still counts, but nothing more is sent
   * until the position is written.
   */
  function keepPosition(): void {
    if (isWritten) return;
    writePosition(options.folder, position);
    isWritten = true;
  }

  /**
   * Checks the server and the claim before events are sent. Does so again after each failure, because the connection
   * may then lead to a different server.
   */
  async function greet(): Promise<Destination> {
    const { connection, quorum, compression } = options;
    const version = await askVersion(connection, signal);
    const meta = await checkSchema(connection, signal);
    const known = await askOwner();
    if (claims && known) moveTo(claimPosition(position, reader.ends().end));
    const shard = await askShard(connection, version, meta, signal);
    if (!claims) checkShard(position, shard);
    if (position.shard !== shard) moveTo(toShardPosition(position, shard));
    // Losses below this number have already been reported, even if this shipper now has another claim.
    if (known && known.shippedNumber > computeSettledNumber(position))
      moveTo({ ...position, settled: known.shippedNumber });
    noteStart(await askStart(connection, signal));
    progress.clock = await askClock(connection, version, signal);
    const onSent = (bytes: number) => {
      progress.wireBytes += bytes;
    };
    const greeted = { connection, version, quorum, compression, onSent };
    const mayMeetOther = heartbeatMs < 0 && !claims;
    await beat(greeted, await askOwner());
    claims = false;
    if (mayMeetOther) await sleep(ALONE_MS, undefined, { signal });
    return greeted;
  }

  async function askOwner(): Promise<KnownNode | undefined> {
    // Throws a ServerError if another process ships this recording.
    const known = await askNode(options.connection, reader.recordingId, signal);
    if (!claims) checkClaim(known, reader.recordingId, position);
    return known;
  }

  function noteStart({ host, startedMs }: Awaited<ReturnType<typeof askStart>>): void {
    const known = position.servers[host];
    if (known !== undefined && Math.abs(known - startedMs) <= RESTART_MS) return;
    const servers = { ...position.servers, [host]: Math.max(0, Math.round(startedMs)) };
    const hasTaken = known !== undefined && position.acknowledged.length > 0;
    if (hasTaken)
      log.warn({ host }, 'the server was restarted: what it acknowledged in its last minutes is sent again');
    moveTo({ ...(hasTaken ? rewindPosition(position, Date.now()) : position), servers });
  }

  async function beat(to: Destination, known: KnownNode | undefined): Promise<void> {
    const span = reader.recordedSpan();
    const { machineId, createdNs } = reader.info();
    // The calls in progress are read before the end of the recording. So a call that ends between both reads is among
    // the events that are not shipped yet.
    const unended = reader.unended();
    const { end } = reader.ends();
    // A long call that waits to be shipped may have begun before events that have already arrived.
    const waitsSinceNs = reader.findEarliestNs(position.number) ?? U64_MAX;
    const aliveNs = span?.toNs ?? 0n;
    // The part below a millisecond is random, so that no two shippers report with the same time.
    const nowNs = BigInt(Date.now()) * 1_000_000n + BigInt(randomInt(1_000_000));
    // The server uses the row with the latest time, so the time must increase even if the clock was set back.
    const latestNs = max(known?.atNs ?? 0n, BigInt(position.saidNs ?? 0));
    const atNs = max(nowNs, latestNs + 1n);
    moveTo({ ...position, saidNs: String(atNs) });
    const state = {
      atNs,
      machineId,
      claim: position.claim,
      createdNs,
      aliveNs,
      endedNs: span?.end === 'closed' ? aliveNs : 0n,
      shippedNumber: computeSettledNumber(position),
      watermarkNs: position.number >= end ? aliveNs : min(BigInt(position.lastNs), waitsSinceNs),
      backlog: countGivenNumbers(position.number, end, position.seen),
      clockOffsetNs: progress.clock?.offsetNs ?? 0n,
      clockUncertaintyNs: progress.clock?.uncertaintyNs ?? 0n,
      unended,
    };
    await sendTable(createSender(to, `${reader.recordingId}-${state.atNs}`, signal), encodeNodeTable(reader, state));
    heartbeatMs = performance.now();
  }

  /**
   * Sends the next group; if there is none, sends new losses and clock steps. Returns whether more events are ready to
   * be sent.
   */
  async function step(): Promise<boolean> {
    keepPosition();
    const { end } = reader.ends();
    // Stores the recording's end even while nothing can be sent, because the recording may be removed before the next
    // start.
    if (end !== position.seen && performance.now() - seenMs >= SEEN_EVERY_MS) {
      seenMs = performance.now();
      moveTo({ ...position, seen: end });
    }
    destination ??= await greet();
    if (performance.now() - heartbeatMs > HEARTBEAT_MS) destination = await greet();
    const { group: begunGroup, number } = position;
    const group = begunGroup
      ? rebuildGroup(reader, begunGroup.from, begunGroup.end)
      : chooseNextGroup(reader, number, sizes.limits());
    if (!group || group.from >= untilNumber) {
      await sendNotes(destination);
      return false;
    }
    await askOwner();
    if (!begunGroup) {
      const { from, end, minNs, maxNs } = group;
      moveTo({ ...position, group: { from, end, minNs: String(minNs), maxNs: String(maxNs) } });
    }
    const sinceMs = performance.now();
    const sent = await send(destination, { group, position, isAgain: begunGroup !== null });
    progress.inserts.add((performance.now() - sinceMs) / 1000);
    progress.events += sent.events;
    sizes.note(sent.events, sent.besideBytes);
    progress.groups++;
    // The next greeting reports the losses as settled, so that a shipper without this position does not report them
    // again.
    if (noteLost(sent.lost)) destination = undefined;
    const lastNs = group.maxNs > BigInt(position.lastNs) ? String(group.maxNs) : position.lastNs;
    moveTo({ ...advancePosition(position, group.end, Date.now()), ...sent.side, lastNs });
    const { sealedEnd } = reader.ends();
    rate.note(sealedEnd);
    if (group.isFull && !options.once) await pace(sent.events, performance.now() - sinceMs);
    return group.isFull || position.number < Math.min(untilNumber, sealedEnd);
  }

  async function sendNotes(to: Destination): Promise<void> {
    const noted = await sendSide(
      createSender(to, `${reader.recordingId}-${position.round}-notes`, signal),
      reader,
      position,
      [],
    );
    if (noted.lossId !== position.lossId || noted.clockId !== position.clockId) moveTo({ ...position, ...noted });
  }

  /** Counts and logs the losses; returns whether there are any. */
  function noteLost(lost: readonly ShippingLoss[]): boolean {
    const count = lost.reduce((sum, loss) => sum + loss.count, 0);
    progress.unshipped += count;
    if (count > 0)
      log.error(
        { events: count },
        'events were removed or damaged before they were shipped; the fleet has a loss instead',
      );
    return count > 0;
  }

  async function pace(events: number, tookMs: number): Promise<void> {
    const perSecond = Math.max(CATCH_UP_RATE_MIN, options.catchUp * rate.perSecond());
    const pauseMs = (events / perSecond) * 1000 - tookMs;
    if (pauseMs > 0) await sleep(pauseMs, undefined, { signal });
  }

  const isReplaced = () => readFileIdentity(path) !== identity || reader.isReplaced();
  for (;;) {
    const isMore = await persist(options, async () => {
      try {
        return await step();
      } catch (error) {
        destination = undefined;
        throw error;
      }
    });
    if (isMore) continue;
    if (options.once) {
      // Reports to the server how far the recording is shipped.
      await persist(options, greet);
      return position;
    }
    if (isReplaced()) return position;
    rate.note(reader.ends().sealedEnd);
    await waitForTick(options.flushMs, computePhaseMs(reader.node, options.flushMs), isReplaced, async () => {
      await sleep(POLL_MS, undefined, { signal });
      if (performance.now() - heartbeatMs < HEARTBEAT_MS) return;
      await persist(options, async () => {
        destination = await greet();
      });
    });
  }
}

/**
 * Returns a function that sends a group. While a server has not yet received all earlier rows, the function throws, for
 * up to `BEHIND_MS_MAX`. After this time, events that are still missing count as lost.
 */
function createPatientSender(source: Parameters<typeof sendGroup>[1], signal: AbortSignal) {
  let behindSinceMs: number | undefined;
  return async (to: Destination, group: Omit<Sending, 'nowNs' | 'waits'>): Promise<SentGroup> => {
    const waits = behindSinceMs === undefined || performance.now() - behindSinceMs < BEHIND_MS_MAX;
    try {
      const nowNs = BigInt(Date.now()) * 1_000_000n;
      const sent = await sendGroup(to, source, { ...group, nowNs, waits }, signal);
      behindSinceMs = undefined;
      return sent;
    } catch (error) {
      if (error instanceof ServerError && error.code === 'behind') behindSinceMs ??= performance.now();
      throw error;
    }
  };
}

function readWaiting(reader: RecordingReader, number: number): ShippingBacklog {
  try {
    const events = countGivenNumbers(number, reader.ends().sealedEnd);
    const [oldest] = events > 0 ? reader.listSealedSegments(number, 1) : [];
    return { events, sinceNs: oldest?.minNs };
  } catch {
    // Shipping itself reports a recording that cannot be read; metrics must not fail because of it.
    return NOTHING_WAITS();
  }
}

/** Waits until the next tick of this node; the ticks of many nodes are spread over `flushMs`. */
async function waitForTick(
  flushMs: number,
  phaseMs: number,
  isReplaced: () => boolean,
  pass: () => Promise<void>,
): Promise<void> {
  const untilMs = performance.now() + flushMs - ((((Date.now() - phaseMs) % flushMs) + flushMs) % flushMs);
  while (performance.now() < untilMs && !isReplaced()) await pass();
}

function computePhaseMs(node: string, flushMs: number): number {
  let hash = 0;
  for (const character of node) hash = (Math.imul(hash, 31) + character.codePointAt(0)!) >>> 0;
  return hash % flushMs;
}

/** Measures how fast the recording grew during the last minute. */
function createLiveRate() {
  const seen: { atMs: number; end: number }[] = [];
  return {
    note(end: number): void {
      seen.push({ atMs: performance.now(), end });
      while (seen.length > 2 && seen.at(-1)!.atMs - seen[1]!.atMs > 60_000) seen.shift();
    },
    perSecond(): number {
      const first = seen[0];
      const last = seen.at(-1);
      if (!first || !last || last.atMs - first.atMs < 1000) return 0;
      return (countGivenNumbers(first.end, last.end) * 1000) / (last.atMs - first.atMs);
    },
  };
}
