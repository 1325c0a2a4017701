/** Records other than events: losses, and steps of the clock. */
import type { EventType } from '../../../bpf/schema/index.ts';
import { type LossCause, toLossCause } from '../../../bpf/schema/losses.ts';

/** The maximum size of a stored cause, event type or kind, in bytes. */
export const WORD_MAX = 64;

/** Why events are missing, and which service they belong to. */
export interface LossReason {
  cause: LossCause;
  /** The service that all missing events belong to; undefined if they may belong to any service. */
  service?: string | undefined;
}

export interface Loss extends LossReason {
  /** Null when the type of the lost events is unknown. */
  eventType: EventType | null;
  count: number;
  fromNs: bigint;
  toNs: bigint;
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

export interface ClockStep {
  bootNs: bigint;
  /** Wall clock minus boot clock, in nanoseconds. */
  offsetNs: bigint;
  kind: 'start' | 'slew' | 'step' | 'suspend';
  /** Duration for which the node was suspended before this step. */
  suspendedNs: bigint;
}
