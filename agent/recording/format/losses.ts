/** Records other than events: losses, and steps of the clock. */
import type { EventType } from '../../../bpf/schema/index.ts';
import { type LossCause, toLossCause } from '../../../bpf/schema/losses.ts';
import { parseJson, stringify } from '../../../daemon/base/exact_json.ts';

/** The maximum size of a stored cause, event type or kind, in bytes. */
export const WORD_MAX = 64;
/** The maximum size of a stored scope, and of stored sums, in characters. */
const TEXT_MAX = 1024;

/** Why events are missing, and which service they belong to. */
export interface LossReason {
  cause: LossCause;
  /** The service that all missing events belong to; undefined if they may belong to any service. */
  service?: string | undefined;
}

/** Which transactions the missing events belong to; if both fields are undefined, they may belong to any. */
export interface LossScope {
  /**
   * The transaction that all missing events belong to. The loss is a part of a divided loss, which counts the same
   * events.
   */
  transactionId?: string | undefined;
  /** Whether the missing events of each transaction are listed as a part; the others belong to no transaction. */
  isDivided?: boolean | undefined;
}

/** Bytes and durations of missing calls, which the kernel side summed up. */
export interface LossSums {
  /** Number of bytes that they wrote. */
  bytes: bigint;
  /** Sum of their durations. */
  durationNs: bigint;
  /** The longest of their durations. */
  longestNs: bigint;
}

export interface Loss extends LossReason, LossScope {
  /** Null when the type of the lost events is unknown. */
  eventType: EventType | null;
  count: number;
  fromNs: bigint;
  toNs: bigint;
  /** Undefined if the events were only counted. */
  sums?: LossSums | undefined;
}

/**
 * Which parts are read: those of one transaction, in place of the divided losses, or all parts beside them; undefined if
 * none.
 */
export type LossParts = { transactionId: string } | 'all';

/** The scopes of losses that are no parts. */
export const WHOLE_SCOPES = ['', 'divided'] as const;

/** Returns the stored scopes of the losses to read, without any parts or with those of one transaction. */
export function listScopes(parts?: Exclude<LossParts, 'all'>): [string, string] {
  return parts ? ['', encodeScope(parts)] : [...WHOLE_SCOPES];
}

/** Returns the stored form of the scope: ``, `divided` or `of order-1`. */
export function encodeScope({ transactionId, isDivided }: LossScope): string {
  return transactionId !== undefined ? `of ${transactionId}` : isDivided ? 'divided' : '';
}

/** Parses a stored scope; returns undefined if it is malformed. */
export function parseScope(text: unknown): LossScope | undefined {
  if (text === '') return {};
  if (text === 'divided') return { isDivided: true };
  const isPart = typeof text === 'string' && text.length <= TEXT_MAX && text.length > 3 && text.startsWith('of ');
  return isPart ? { transactionId: text.slice(3) } : undefined;
}

/** Whether a part of the transaction can be stored. */
export const canBePart = (transactionId: string): boolean => parseScope(encodeScope({ transactionId })) !== undefined;

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

/** Returns the stored form of the sums, which is JSON, and '' if there are none. */
export function encodeSums(sums: LossSums | undefined): string {
  if (!sums) return '';
  return stringify({ bytes: sums.bytes, duration_ns: sums.durationNs, longest_ns: sums.longestNs });
}

/** Parses stored sums; returns undefined if they are malformed. */
export function parseSums(text: unknown): Pick<Loss, 'sums'> | undefined {
  if (text === '') return {};
  if (typeof text !== 'string' || text.length > TEXT_MAX) return undefined;
  try {
    const { bytes, duration_ns: durationNs, longest_ns: longestNs } = parseJson(text) as Record<string, unknown>;
    if (!isCount(bytes) || !isCount(durationNs) || !isCount(longestNs)) return undefined;
    return { sums: { bytes: BigInt(bytes), durationNs: BigInt(durationNs), longestNs: BigInt(longestNs) } };
  } catch {
    return undefined;
  }
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
