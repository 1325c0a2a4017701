/**
 * Sends a group to all tables. The table that marks the group as arrived comes last. A failure may leave rows in some
 * tables. The same group is then sent again, and its rows replace those rows.
 */

import { randomUUID } from 'node:crypto';
import type { NumberedBlock } from '../../bpf/schema/block.ts';
import { max, min, U64_MAX } from '../../daemon/base/bigints.ts';
import type { Connection } from '../clickhouse/connection/connection.ts';
import {
  chooseInsertCompression,
  chooseInsertSettings,
  type ServerVersion,
} from '../clickhouse/tables/server_version.ts';
import type { RecordingReader } from '../recording/read/reader.ts';
import type { SealedSegment } from '../recording/read/sealed_segments.ts';
import { type ArrivalQuestion, askArrived, askListed, type DeliveredSegment } from './arrived.ts';
import { findGap, findHoles, type SegmentGroup, selectEventsWithin, splitIntoParts, type TimePart } from './groups.ts';
import { computeSettledNumber, type ShippingPosition } from './position.ts';
import type { GroupRows, SentTable } from './rows/group_rows.ts';
import { encodeClockTable, encodeLossTables, encodeSegmentTable, type ShippingLoss } from './side_rows.ts';

export interface Destination {
  connection: Connection;
  version: ServerVersion;
  /** Number of replicas that must have a row before it counts as arrived. */
  quorum?: number | undefined;
  compression?: ReturnType<typeof chooseInsertCompression> | undefined;
  /** Called with the number of bytes that were sent. */
  onSent?: ((bytes: number) => void) | undefined;
}

export interface SentGroup {
  events: number;
  /** Size of these events' rows for tables other than `event`, in bytes. */
  besideBytes: number;
  /** Events that did not arrive although they were recorded. */
  lost: readonly ShippingLoss[];
  /** Ids of the last loss and the last clock step that were sent with the group. */
  side: Pick<ShippingPosition, 'lossId' | 'clockId'>;
}

type GroupReader = Pick<
  RecordingReader,
  'recordingId' | 'node' | 'readSealedEvents' | 'listLossesAfter' | 'listClockStepsAfter'
>;

export interface Sending {
  group: SegmentGroup;
  position: ShippingPosition;
  nowNs: bigint;
  /** Whether the group was begun before, so that a server may have events that are no longer in the recording. */
  isAgain: boolean;
  /** Whether to throw while a server may still receive some events of the earlier attempt. */
  waits: boolean;
}

/** Sends a group and returns what has arrived and what was lost. Throws a ServerError, or the reason of the signal. */
export async function sendGroup(
  destination: Destination,
  { reader, rows }: { reader: GroupReader; rows: GroupRows },
  sending: Sending,
  signal: AbortSignal,
): Promise<SentGroup> {
  const { group, position } = sending;
  const name = nameGroup(position, group);
  const { connection } = destination;
  const question = {
    recordingId: reader.recordingId,
    insertId: position.begun ? `${reader.recordingId}-` : buildInsertId(name),
    waits: sending.waits,
    signal,
  };
  const removed = await askRemoved(connection, question, sending);
  /** Losses by the first number of the segment that has the lost events. */
  const unread = new Map<number, ShippingLoss>();
  function lose({ firstNumber: from, minNs, maxNs }: SealedSegment, cause: ShippingLoss['cause'], count: number): void {
    unread.set(from, { from, count, fromNs: minNs, toNs: maxNs, cause });
  }

  /** Yields the events of the segments that can be read, and notes all other events as lost. */
  function* readBlocks(): Generator<{ segment: SealedSegment; block: NumberedBlock }> {
    for (const segment of group.segments) {
      const read = reader.readSealedEvents(segment);
      const lost = segment.eventCount - (read.kind === 'events' ? read.block.rowCount : 0);
      if (lost > 0) lose(segment, read.kind === 'removed' ? 'unshipped' : 'damaged', lost);
      if (read.kind === 'events') yield { segment, block: read.block };
    }
  }

  const send = createSender(destination, name, signal);
  let events = 0;
  function* encodeEventBlocks(part: TimePart | undefined): Generator<Buffer> {
    rows.begin();
    events = 0;
    for (const { segment, block } of readBlocks()) {
      const own = selectEventsWithin(block, part);
      const made = own.rowCount > 0 ? rows.add(own, segment.firstNumber, group.typeMask) : undefined;
      if (made) {
        events += own.rowCount;
        yield made;
      } else if (own.rowCount > 0) lose(segment, 'damaged', segment.eventCount);
    }
  }

  let [sent, besideBytes] = [0, 0];
  for (const [i, part] of splitIntoParts(group, readBlocks).entries()) {
    const label = part ? `-${i}` : '';
    // A group without segments makes no block, so nothing is inserted.
    if (group.segments.length > 0)
      await send(
        { table: 'event', columns: rows.listEventColumns(group.typeMask) },
        () => encodeEventBlocks(part),
        label,
      );
    for (const table of group.segments.length > 0 ? rows.readBesideTables() : []) {
      besideBytes += table.blocks.reduce((sum, { length }) => sum + length, 0);
      await sendTable(send, table, label);
    }
    sent += events;
  }
  const read = await readFrom(connection, question, group.segments, unread);
  const lost = [...removed.lost, ...read.lost.filter(({ from }) => from >= computeSettledNumber(position))];
  const side = await sendSide(send, reader, position, lost);
  await sendTable(send, encodeSegmentTable(reader, [...removed.arrived, ...read.arrived]));
  return { events: sent, besideBytes, lost, side };
}

/** Returns the name of a group, which is the same for all servers. */
export function nameGroup(
  { recordingId, round }: ShippingPosition,
  { from, end }: Pick<SegmentGroup, 'from' | 'end'>,
): string {
  return `${recordingId}-${round}-${from}-${end}`;
}

/** Returns the id prefix of the inserts that send a group's events. */
export const buildInsertId = (name: string): string => `${name}-event`;

interface ShipmentOutcome {
  /**
   * Losses to report. A loss with a count of 0 is about events that arrived, but that the sums in other tables may
   * lack.
   */
  lost: ShippingLoss[];
  arrived: DeliveredSegment[];
}

/** Returns which events arrived and which are lost, among the events that were removed before the group was sent. */
async function askRemoved(
  connection: Connection,
  question: ArrivalQuestion,
  { group, position, nowNs, isAgain }: Sending,
): Promise<ShipmentOutcome> {
  const settled = computeSettledNumber(position);
  const gap = findGap(group, { settled, seen: position.seen }, BigInt(position.lastNs), nowNs);
  if (!gap) return { lost: [], arrived: [] };
  const arrived: DeliveredSegment[] = [];
  let { count } = gap;
  const times = computeGroupTimes(position);
  const sentEnd = isAgain ? group.end : (position.begun?.end ?? 0);
  for (const hole of findHoles({ ...group, end: Math.min(group.end, sentEnd) }, settled)) {
    const found = await askArrived(connection, question, { ...hole, ...times });
    if (!found) continue;
    count -= found.eventCount;
    const from = await askListed(connection, question, hole);
    const unlisted =
      from > hole.from ? await askArrived(connection, question, { from, end: hole.end, ...times }) : found;
    if (unlisted) arrived.push(unlisted);
  }
  return { lost: [{ ...gap, count, cause: 'unshipped' }], arrived };
}

/** Returns the range of start times of the events in the groups that may have arrived in part. */
export function computeGroupTimes({ group, begun }: Pick<ShippingPosition, 'group' | 'begun'>): {
  fromNs: bigint;
  toNs: bigint;
} {
  const groups = [group, begun].filter((one) => one !== null);
  return {
    fromNs: groups.map(({ minNs }) => BigInt(minNs ?? 0)).reduce(min, U64_MAX),
    toNs: groups.map(({ maxNs }) => BigInt(maxNs ?? U64_MAX)).reduce(max, 0n),
  };
}

/** Returns which events of the sent segments arrived and which are lost. Some of the segments could not be read. */
async function readFrom(
  connection: Connection,
  question: ArrivalQuestion,
  segments: readonly SealedSegment[],
  unread: ReadonlyMap<number, ShippingLoss>,
): Promise<ShipmentOutcome> {
  const outcome: ShipmentOutcome = { lost: [], arrived: [] };
  for (const segment of segments) {
    const loss = unread.get(segment.firstNumber);
    if (!loss) {
      outcome.arrived.push(segment);
      continue;
    }
    const { firstNumber: from, endNumber: end, eventCount } = segment;
    const found = await askArrived(connection, question, { from, end, fromNs: loss.fromNs, toNs: loss.toNs });
    const arrivedCount = found?.eventCount ?? eventCount - loss.count;
    outcome.lost.push({ ...loss, count: eventCount - arrivedCount });
    if (arrivedCount > 0) outcome.arrived.push({ ...segment, eventCount: arrivedCount });
  }
  return outcome;
}

/**
 * Sends the losses and clock steps that the recording noted since `position`, and the losses in `lost`. Returns the ids
 * of the last loss and the last clock step.
 */
export async function sendSide(
  send: Send,
  reader: GroupReader,
  position: Pick<ShippingPosition, 'lossId' | 'clockId'>,
  lost: readonly ShippingLoss[],
): Promise<SentGroup['side']> {
  const noted = reader.listLossesAfter(position.lossId, 'all');
  const steps = reader.listClockStepsAfter(position.clockId);
  const lossId = noted.at(-1)?.lossId ?? position.lossId;
  const clockId = steps.at(-1)?.clockId ?? position.clockId;
  // The label contains all counts, because a server drops an insert whose name it has seen, and more losses may be
  // noted before a retry.
  const missing = lost.reduce((sum, { count }) => sum + count, 0);
  const latestNs = lost.reduce((latest, { toNs }) => (toNs > latest ? toNs : latest), 0n);
  for (const [i, table] of encodeLossTables(reader, noted, lost).entries())
    await sendTable(send, table, `-${position.lossId}-${lossId}-${missing}-${latestNs}-${i}`);
  await sendTable(send, encodeClockTable(reader, steps), `-${position.clockId}-${clockId}`);
  return { lossId, clockId };
}

type Send = (
  into: { table: string; columns: readonly string[] },
  blocks: () => Iterable<Uint8Array>,
  label?: string,
) => Promise<void>;

/**
 * Returns a function that inserts rows. The token of an insert consists of `name`, table and label: a server drops an
 * insert whose token it has already seen.
 */
export function createSender(destination: Destination, name: string, signal: AbortSignal) {
  const { connection, version, quorum, compression, onSent } = destination;
  const send: Send = (into, blocks, label = '') =>
    connection.insert(into, blocks, {
      compression: compression ?? chooseInsertCompression(version),
      settings: chooseInsertSettings(version, { token: `${name}-${into.table}${label}`, quorum }),
      id: `${name}-${into.table}${label}-${randomUUID()}`,
      onSent,
      signal,
    });
  return send;
}

export async function sendTable(send: Send, { table, columns, blocks }: SentTable, label?: string): Promise<void> {
  if (blocks.length > 0) await send({ table, columns }, () => blocks, label);
}
