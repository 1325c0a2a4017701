/**
 * The position up to which a recording is shipped: a small file that is replaced as a whole. The agent reads it, too.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { POSITION_FILE } from '../../bpf/schema/ship_report.ts';
import { UserError } from '../process/errors.ts';

const NUMBER = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const TIME = z.string().regex(/^\d{1,20}$/);

const POSITION = z.object({
  version: z.literal(1),
  recordingId: z.string().regex(/^[0-9a-f]{16}$/),
  node: z.string(),
  /** Identifies this shipper: another shipper of the same recording has another claim. */
  claim: z.string().regex(/^[0-9a-f]{32}$/),
  /**
   * Time of the latest report to a server. It is written before the report is sent, so a later report is from another
   * shipper.
   */
  saidNs: TIME.optional(),
  /** The shard that events are sent to. They must not be sent to a second shard as well. */
  shard: z.string().optional(),
  /** Events with lower numbers are acknowledged. */
  number: NUMBER,
  /** Events with lower numbers have arrived or are reported as lost, so a loss among them is not reported again. */
  settled: NUMBER.default(0),
  /** The number after the last event that was seen in the recording, which may be removed before the next start. */
  seen: NUMBER.default(0),
  /** The latest end of a shipped segment, in nanoseconds since the epoch. */
  lastNs: TIME,
  /** Ids of the last acknowledged loss and the last acknowledged clock step. */
  lossId: NUMBER,
  clockId: NUMBER,
  /**
   * Number of times that the position was rewound. The names of inserts contain this number, so that a server that has
   * lost rows accepts them again.
   */
  round: NUMBER.default(0),
  /**
   * The boundary of the group that is being sent, and the range of its start times. Parts of the group may have
   * arrived.
   */
  group: z.object({ from: NUMBER, end: NUMBER, minNs: TIME.optional(), maxNs: TIME.optional() }).nullable(),
  /** A group that was being sent when the position was rewound. Parts of it may have arrived, too. */
  begun: z.object({ end: NUMBER, minNs: TIME.optional(), maxNs: TIME.optional() }).nullable().default(null),
  /**
   * Events below `number` were acknowledged before `atMs`, all others at `atMs` or later. Covers the last 15 minutes.
   */
  acknowledged: z.array(z.object({ atMs: NUMBER, number: NUMBER })),
  /** Start time of each server that accepted events, as the server reports it, in milliseconds since the epoch. */
  servers: z.record(z.string(), NUMBER),
});

export type ShippingPosition = z.infer<typeof POSITION>;

/** Events that were acknowledged within this time may be lost if the server's machine loses power. */
const REMEMBERED_MS = 15 * 60_000;
/** Minimum interval between two entries of `acknowledged`. */
const REMEMBER_EVERY_MS = 10_000;

export function createPosition(
  recordingId: string,
  node: string,
  claim = randomBytes(16).toString('hex'),
): ShippingPosition {
  return {
    version: 1,
    recordingId,
    node,
    claim,
    number: 0,
    settled: 0,
    seen: 0,
    lastNs: '0',
    lossId: 0,
    clockId: 0,
    round: 0,
    group: null,
    begun: null,
    acknowledged: [],
    servers: {},
  };
}

/** Returns the position after the group that ends at `end` was acknowledged. */
export function advancePosition(position: ShippingPosition, end: number, nowMs: number): ShippingPosition {
  const recent = position.acknowledged.filter(({ atMs }) => nowMs - atMs < REMEMBERED_MS && atMs <= nowMs);
  const isDue = nowMs - (recent.at(-1)?.atMs ?? Number.NEGATIVE_INFINITY) >= REMEMBER_EVERY_MS;
  // This group begins with the event `number`, so all events below that were acknowledged earlier.
  const acknowledged = isDue ? [...recent, { atMs: nowMs, number: position.number }] : recent;
  const begun = position.begun && position.begun.end > end ? position.begun : null;
  return { ...position, number: end, settled: Math.max(position.settled, end), group: null, begun, acknowledged };
}

/** Returns the number below which all events have arrived or are reported as lost. */
export function computeSettledNumber({ number, settled }: ShippingPosition): number {
  return Math.max(number, settled);
}

/** Returns an earlier position, so that all events that a server may have lost are sent again. */
export function rewindPosition(position: ShippingPosition, nowMs: number): ShippingPosition {
  const first = position.acknowledged.find(({ atMs }) => nowMs - atMs < REMEMBERED_MS);
  const number = Math.min(first?.number ?? position.number, position.group?.from ?? position.number);
  const settled = computeSettledNumber(position);
  const round = position.round + 1;
  const begun = position.group ?? position.begun;
  return { ...position, number, settled, round, lossId: 0, clockId: 0, group: null, begun, acknowledged: [] };
}

/**
 * Returns the position of a shipper that takes over from another shipper. The other shipper may have sent more events
 * than it reported to a server, up to the end of the recording.
 */
export function claimPosition(position: ShippingPosition, recordedEnd: number): ShippingPosition {
  return { ...position, begun: { end: Math.max(recordedEnd, position.begun?.end ?? 0) } };
}

/**
 * Returns the position without the acknowledgements of another shard: when a server of this shard restarts, only events
 * that this shard acknowledged are sent to it again.
 */
export function toShardPosition(position: ShippingPosition, shard: string): ShippingPosition {
  if (position.shard === undefined) return { ...position, shard };
  return { ...position, shard, acknowledged: [], servers: {} };
}

/** Reads the position; returns undefined if there is none yet. Throws a UserError if reading the file fails. */
export function readPosition(folder: string): ShippingPosition | undefined {
  const path = join(folder, POSITION_FILE);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new UserError(`cannot read ${path}: ${(error as Error).message}; run \`kreplay ship\` as its owner`);
  }
  const read = POSITION.safeParse(parseJson(text));
  if (!read.success)
    throw new UserError(
      `${path} is damaged: remove it and run \`kreplay ship --claim\`, which ships all that is recorded again; what has arrived is not doubled`,
    );
  return read.data;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The file's group may read it, because the agent waits for the position before it removes old events. */
const FILE_MODE = 0o640;

/** The error if writing the position fails. Nothing may be sent until a write succeeds. */
export class PositionError extends UserError {
  override readonly name = 'PositionError';
  readonly code = 'position';
  readonly meaning = 'wait';
}

/** Replaces the file. When this function returns, the position survives a loss of power. Throws a PositionError. */
export function writePosition(folder: string, position: ShippingPosition): void {
  try {
    replacePosition(folder, position);
  } catch (error) {
    const { message } = error as Error;
    throw new PositionError(`cannot write ${join(folder, POSITION_FILE)}: ${message}`);
  }
}

function replacePosition(folder: string, position: ShippingPosition): void {
  const path = join(folder, POSITION_FILE);
  const next = `${path}.next`;
  const file = openSync(next, 'w', FILE_MODE);
  try {
    writeSync(file, `${JSON.stringify(position)}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(next, path);
  syncFolder(dirname(path));
}

function syncFolder(folder: string): void {
  const opened = openSync(folder, 'r');
  try {
    fsyncSync(opened);
  } finally {
    closeSync(opened);
  }
}

/** Makes the folder for the position if it is missing. Throws a UserError if that fails. */
export function makeStateFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o750 });
  } catch (error) {
    throw new UserError(`cannot make ${folder}: ${(error as Error).message}; give another folder with --state`);
  }
}
