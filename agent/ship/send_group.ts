/**
 * Sends a group to all tables, the one that says that it has arrived last. A failure leaves the rows of some tables
 * there: the same group is sent again, and its rows replace those.
 */
import type { NumberedBlock } from '../../bpf/schema/block.ts';
import type { Connection } from '../clickhouse/connection/connection.ts';
import { compressionOf, insertSettings, type ServerVersion } from '../clickhouse/tables/server_version.ts';
import type { RecordingReader } from '../recording/read/reader.ts';
import { eventsWithin, type Group, gapOf, partsOf, type TimePart } from './groups.ts';
import { type Position, settledIn } from './position.ts';
import type { GroupRows, SentTable } from './rows/group_rows.ts';
import { clockTable, lossTables, type ShippingLoss, segmentTable } from './side_rows.ts';

export interface Destination {
  connection: Connection;
  version: ServerVersion;
  /** Number of replicas that must have a row before it counts as arrived. */
  quorum?: number | undefined;
  compression?: ReturnType<typeof compressionOf> | undefined;
  /** Called with the number of bytes that went out. */
  onSent?: ((bytes: number) => void) | undefined;
}

export interface SentGroup {
  events: number;
  /** Events that did not arrive although they were recorded. */
  lost: readonly ShippingLoss[];
  /** Position after the losses and clock steps that were sent with it. */
  side: Pick<Position, 'lossId' | 'clockId'>;
}

type Source = Pick<RecordingReader, 'recordingId' | 'node' | 'sealedEvents' | 'lossesAfter' | 'clockStepsAfter'>;

/** Throws a ServerError, or the reason of the signal. */
export async function sendGroup(
  destination: Destination,
  { reader, rows }: { reader: Source; rows: GroupRows },
  { group, position, nowNs }: { group: Group; position: Position; nowNs: bigint },
  signal: AbortSignal,
): Promise<SentGroup> {
  const settled = settledIn(position);
  const gap = gapOf(group, settled, BigInt(position.lastNs), nowNs);
  /** Losses by the first number of the segment that has them. */
  const unread = new Map<number, ShippingLoss>();
  const name = `${reader.recordingId}-${position.round}-${group.from}-${group.end}`;

  /** The events of the segments that can be read; the others are lost. */
  function* blocks(): Generator<{ firstNumber: number; block: NumberedBlock }> {
    for (const segment of group.segments) {
      const read = reader.sealedEvents(segment);
      const { firstNumber, eventCount, minNs, maxNs } = segment;
      const readCount = read.kind === 'events' ? read.block.rowCount : 0;
      if (readCount < eventCount) {
        const cause = read.kind === 'removed' ? 'unshipped' : 'damaged';
        unread.set(firstNumber, {
          from: firstNumber,
          count: eventCount - readCount,
          fromNs: minNs,
          toNs: maxNs,
          cause,
        });
      }
      if (read.kind === 'events') yield { firstNumber, block: read.block };
    }
  }

  const send = sender(destination, name, signal);
  let events = 0;
  function* eventBlocks(part: TimePart | undefined): Generator<Buffer> {
    rows.begin();
    events = 0;
    for (const { firstNumber, block: whole } of blocks()) {
      const block = eventsWithin(whole, part);
      if (block.rowCount > 0) yield rows.add(block, firstNumber, group.typeMask);
      events += block.rowCount;
    }
  }

  let sent = 0;
  for (const [i, part] of partsOf(group, blocks).entries()) {
    const label = part ? `-${i}` : '';
    // Without rows there is no block: nothing to insert.
    if (group.segments.length > 0)
      await send({ table: 'event', columns: rows.eventColumns(group.typeMask) }, () => eventBlocks(part), label);
    for (const table of group.segments.length > 0 ? rows.beside() : []) await sendTable(send, table, label);
    sent += events;
  }
  const lost = [...unread.values()].filter(({ from }) => from >= settled);
  if (gap) lost.unshift({ ...gap, cause: 'unshipped' });
  const side = await sendSide(send, reader, position, lost);
  const arrived = group.segments.flatMap((segment) => {
    const eventCount = segment.eventCount - (unread.get(segment.firstNumber)?.count ?? 0);
    return eventCount > 0 ? [{ ...segment, eventCount }] : [];
  });
  await sendTable(send, segmentTable(reader, arrived));
  return { events: sent, lost, side };
}

/** Sends what the recording and the shipper noted beside events since the position. */
export async function sendSide(
  send: Send,
  reader: Source,
  position: Pick<Position, 'lossId' | 'clockId'>,
  lost: readonly ShippingLoss[],
): Promise<SentGroup['side']> {
  const noted = reader.lossesAfter(position.lossId);
  const steps = reader.clockStepsAfter(position.clockId);
  const lossId = noted.at(-1)?.lossId ?? position.lossId;
  const clockId = steps.at(-1)?.clockId ?? position.clockId;
  // More may be noted or lost before it is sent again, and a server drops what has the name of earlier rows.
  const missing = lost.reduce((sum, { count }) => sum + count, 0);
  for (const [i, table] of lossTables(reader, noted, lost).entries())
    await sendTable(send, table, `-${position.lossId}-${lossId}-${missing}-${i}`);
  await sendTable(send, clockTable(reader, steps), `-${position.clockId}-${clockId}`);
  return { lossId, clockId };
}

type Send = (
  into: { table: string; columns: readonly string[] },
  blocks: () => Iterable<Uint8Array>,
  label?: string,
) => Promise<void>;

/** `name` names the rows of each insert, together with its table: a server drops those that it has already. */
export function sender(destination: Destination, name: string, signal: AbortSignal) {
  const { connection, version, quorum, compression, onSent } = destination;
  const send: Send = (into, blocks, label = '') =>
    connection.insert(into, blocks, {
      compression: compression ?? compressionOf(version),
      settings: insertSettings(version, { token: `${name}-${into.table}${label}`, quorum }),
      onSent,
      signal,
    });
  return send;
}

export async function sendTable(send: Send, { table, columns, blocks }: SentTable, label?: string): Promise<void> {
  if (blocks.length > 0) await send({ table, columns }, () => blocks, label);
}
