/** Records other than events: losses, and steps of the clock. */
import type { EventType } from '../../../bpf/schema/index.ts';
import { type LossCause, toLossCause } from '../../../bpf/schema/losses.ts';
import { parseJson, stringify } from '../../../daemon/base/exact_json.ts';

/** The maximum size of a stored cause, event type or kind, in bytes. */
export const WORD_MAX = 64;
/** The maximum size of a stored detail, in characters. */
export const DETAIL_MAX = 1024;

/** Owner of missing events. */
export interface LossOwner {
  /** The service that all missing events belong to; undefined if they may belong to any service. */
  service?: string | undefined;
  /**
   * The transaction that all missing events belong to; null if they belong to none, undefined if they may belong to
   * any.
   */
  transactionId?: string | null | undefined;
}

/** Why events are missing, and which service they belong to. */
export interface LossReason extends Pick<LossOwner, 'service'> {
  cause: LossCause;
}

/** What is known of missing events besides their count. */
export interface LossSums {
  /** Number of bytes that they wrote. */
  bytes: bigint;
  /** Sum of their durations. */
  durationNs: bigint;
  /** The longest of their durations. */
  longestNs: bigint;
}

/** What a loss has besides its reason, and what only losses of some causes have. */
export interface LossDetail extends Pick<LossOwner, 'transactionId'> {
  sums?: LossSums | undefined;
}

export interface Loss extends LossReason, LossDetail {
  /** Null when the type of the lost events is unknown. */
  eventType: EventType | null;
  count: number;
  fromNs: bigint;
  toNs: bigint;
}

/** Returns a text that is the same for two losses if their owners are the same. */
export function buildOwnerKey({ service, transactionId }: LossOwner): string {
  // JSON writes undefined as null.
  return JSON.stringify([service, transactionId === undefined ? [] : transactionId]);
}

/** Adds up the sums; undefined if one of them is not known. */
export function addLossSums(a: LossSums | undefined, b: LossSums | undefined): LossSums | undefined {
  return (
    a &&
    b && {
      bytes: a.bytes + b.bytes,
      durationNs: a.durationNs + b.durationNs,
      longestNs: a.longestNs > b.longestNs ? a.longestNs : b.longestNs,
    }
  );
}

/**
 * Returns the stored form of the reason. A reader that knows only causes sees a reason with a service as an unknown
 * cause.
 */
export function encodeReason({ cause, service }: LossReason): string {
  if (service === undefined) return cause;
  const text = `${cause} ${service}`;
  return Buffer.byteLength(text) <= WORD_MAX ? text : cause;
}

/**
 * Parses a stored reason. A reason with an unknown cause has no service, because its events may belong to any service.
 */
export function parseReason(text: string): LossReason {
  const [first, ...service] = text.split(' ');
  const cause = toLossCause(first!);
  if (service.length === 0) return { cause };
  return cause === 'unknown' ? { cause } : { cause, service: service.join(' ') };
}

/** Returns the stored form of the detail, which is JSON; null if the loss has none. */
export function encodeDetail({ transactionId, sums }: LossDetail): string | null {
  if (transactionId === undefined && !sums) return null;
  const stored = sums && { bytes: sums.bytes, duration_ns: sums.durationNs, longest_ns: sums.longestNs };
  const text = stringify({ ...(transactionId !== undefined && { transaction_id: transactionId }), ...stored });
  // Without its long id, the loss may belong to any transaction.
  return text.length <= DETAIL_MAX ? text : encodeDetail({ sums });
}

/** Parses a stored detail; returns undefined if it is malformed. */
export function parseDetail(text: unknown): LossDetail | undefined {
  if (text === null || text === '') return {};
  if (typeof text !== 'string' || text.length > DETAIL_MAX) return undefined;
  try {
    return toLossDetail(parseJson(text));
  } catch {
    return undefined;
  }
}

function toLossDetail(stored: unknown): LossDetail | undefined {
  if (typeof stored !== 'object' || stored === null || Array.isArray(stored)) return undefined;
  const {
    transaction_id: transactionId,
    bytes,
    duration_ns,
    longest_ns,
    ...others
  } = stored as Record<string, unknown>;
  const isId = transactionId === null || (typeof transactionId === 'string' && transactionId !== '');
  if (Object.keys(others).length > 0 || (transactionId !== undefined && !isId)) return undefined;
  const owner = isId ? { transactionId } : {};
  const counts = [bytes, duration_ns, longest_ns];
  if (counts.every((count) => count === undefined)) return owner;
  if (!counts.every(isCount)) return undefined;
  const [sumBytes, durationNs, longestNs] = counts.map(BigInt);
  return { ...owner, sums: { bytes: sumBytes!, durationNs: durationNs!, longestNs: longestNs! } };
}

const isCount = (value: unknown): value is number | bigint =>
  (Number.isSafeInteger(value) || typeof value === 'bigint') && (value as number | bigint) >= 0;

export interface ClockStep {
  bootNs: bigint;
  /** Wall clock minus boot clock, in nanoseconds. */
  offsetNs: bigint;
  kind: 'start' | 'slew' | 'step' | 'suspend';
  /** Duration for which the node was suspended before this step. */
  suspendedNs: bigint;
}
