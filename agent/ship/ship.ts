/** Ships the recordings of a node, one after the other: when a recording is removed, the next one follows. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from '../clickhouse/connection/connection.ts';
import { RecordingError } from '../recording/format/errors.ts';
import { countGivenNumbers } from '../recording/format/numbers.ts';
import { openReader, type RecordingReader } from '../recording/read/reader.ts';
import { type ArrivalQuestion, askArrived, type DeliveredSegment } from './arrived.ts';
import { askVersion } from './contact.ts';
import { persist } from './persist.ts';
import {
  computeSettledNumber,
  createPosition,
  makeStateFolder,
  readPosition,
  type ShippingPosition,
  writePosition,
} from './position.ts';
import { NOTHING_WAITS } from './progress.ts';
import { buildInsertId, computeGroupTimes, createSender, nameGroup, sendTable } from './send_group.ts';
import { BEHIND_MS_MAX, type ShipperOptions, shipRecording } from './shipper.ts';
import { encodeLossTables, encodeSegmentTable } from './side_rows.ts';

/** Interval between checks for a missing recording. */
const POLL_MS = 5_000;

/** Ships until the signal aborts or, if `once`, all events sealed at the start have arrived. Throws a UserError. */
export async function ship(options: ShipperOptions, path: string): Promise<void> {
  makeStateFolder(options.folder);
  let position = readPosition(options.folder);
  try {
    for (;;) {
      const reader = await openRecording(options, path);
      try {
        position = await preparePosition(options, reader, position);
        position = await shipRecording(options, { reader, path }, position);
        if (!options.once) position = await leave(options, reader, position);
      } finally {
        options.progress.waiting = NOTHING_WAITS;
        reader.close();
      }
      if (options.once) return;
    }
  } catch (error) {
    if (!options.signal.aborted) throw error;
  }
}

async function openRecording({ once, signal, log }: ShipperOptions, path: string): Promise<RecordingReader> {
  for (let isNoted = false; ; isNoted = true) {
    try {
      return openReader(path, { takesOnce: true });
    } catch (error) {
      if (!(error instanceof RecordingError) || error.code !== 'recording_missing' || once) throw error;
      if (!isNoted) log.warn({ path }, 'there is no recording yet; shipping begins when there is one');
    }
    await sleep(POLL_MS, undefined, { signal });
  }
}

/**
 * Returns the stored position if it is in this recording. Otherwise returns the beginning of this recording, which is
 * new or has replaced the recording of the stored position.
 */
async function preparePosition(
  options: ShipperOptions,
  reader: RecordingReader,
  known: ShippingPosition | undefined,
): Promise<ShippingPosition> {
  if (known?.recordingId === reader.recordingId) return known;
  const next = createPosition(reader.recordingId, reader.node, known?.claim);
  if (known) {
    options.log.warn({ before: known.recordingId, now: reader.recordingId }, 'the recording was replaced');
    // More events may have been recorded since the position was written; their number is unknown.
    await tellRest(options, known, countGivenNumbers(computeSettledNumber(known), known.seen));
  }
  await persist(options, async () => writePosition(options.folder, next));
  return next;
}

/** Reports the events of a removed recording that were not shipped, and returns the position after them. */
async function leave(
  options: ShipperOptions,
  reader: RecordingReader,
  position: ShippingPosition,
): Promise<ShippingPosition> {
  const { end } = reader.ends();
  const rest = countGivenNumbers(computeSettledNumber(position), end, position.seen);
  if (rest === 0) return position;
  await tellRest(options, position, rest);
  const next = { ...position, number: end, group: null };
  await persist(options, async () => writePosition(options.folder, next));
  return next;
}

/**
 * Reports the loss of unshipped events to the server. `rest` is the number of events that were recorded and not
 * acknowledged; some of them may have arrived.
 */
async function tellRest(options: ShipperOptions, position: ShippingPosition, rest: number): Promise<void> {
  const { connection, quorum, compression, signal, log, progress } = options;
  const from = computeSettledNumber(position);
  const fromNs = BigInt(position.lastNs);
  const nowNs = BigInt(Date.now()) * 1_000_000n;
  const toNs = nowNs > fromNs ? nowNs : fromNs;
  const sinceMs = performance.now();
  const count = await persist(options, async () => {
    const version = await askVersion(connection, signal);
    const send = createSender({ connection, version, quorum, compression }, `${position.recordingId}-rest`, signal);
    const question = { waits: performance.now() - sinceMs < BEHIND_MS_MAX, signal };
    const arrived = await readArrived(connection, question, position);
    const lost = Math.max(0, rest - (arrived?.eventCount ?? 0));
    const loss = { from, count: lost, fromNs, toNs, cause: 'unshipped' as const };
    for (const table of encodeLossTables(position, [], [loss])) await sendTable(send, table);
    if (arrived) await sendTable(send, encodeSegmentTable(position, [arrived]));
    return lost;
  });
  progress.unshipped += count;
  log.error({ events: count }, 'a recording is gone that was not shipped to its end');
}

/**
 * Returns the events that arrived from the group that was being sent when its recording was removed; undefined if there
 * are none.
 */
async function readArrived(
  connection: Connection,
  question: Pick<ArrivalQuestion, 'waits' | 'signal'>,
  position: ShippingPosition,
): Promise<DeliveredSegment | undefined> {
  const { group, begun, recordingId } = position;
  const from = Math.max(group?.from ?? 0, computeSettledNumber(position));
  const end = Math.max(group?.end ?? 0, begun?.end ?? 0);
  if (end <= from) return undefined;
  const insertId = buildInsertId(nameGroup(position, group ?? { from, end }));
  return askArrived(connection, { ...question, recordingId, insertId }, { from, end, ...computeGroupTimes(position) });
}
