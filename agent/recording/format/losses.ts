/** Records that are kept in addition to events: losses, and steps of the clock. */
import type { EventType } from '../../../bpf/schema/index.ts';
import { type LossCause, toLossCause } from '../../../bpf/schema/losses.ts';

/** The most bytes of a cause, an event type or a kind. */
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
 * Returns the stored form of the reason. A reader that knows only causes treats a reason with a service as an unknown
 * cause.
 */
export function encodeReason({ cause, service }: LossReason): string {
  if (service === undefined) return cause;
  const text = `${cause} ${service}`;
  return Buffer.byteLength(text) <= WORD_MAX ? text : cause;
}

/** A loss with an unknown cause may concern any service. */
export function parseReason(text: string): LossReason {
  const [first, ...service] = text.split(' ');
  const cause = toLossCause(first!);
  if (service.length === 0) return { cause };
  return cause === 'unknown' ? { cause } : { cause, service: service.join(' ') };
}

export interface ClockStep {
  bootNs: bigint;
  /** Wall clock minus boot clock. */
  offsetNs: bigint;
  kind: 'start' | 'slew' | 'step' | 'suspend';
  /** How long the node was suspended before this step. */
  suspendedNs: bigint;
}
