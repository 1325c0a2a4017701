/** Records that are kept beside the events: losses, and steps of the clock. */
import type { EventType } from '../../../bpf/schema/index.ts';
import { type LossCause, toLossCause } from '../../../bpf/schema/losses.ts';

/** The most bytes of a cause, an event type or a kind. */
export const WORD_MAX = 64;

/** Why something is missing, and whose it is. */
export interface LossReason {
  cause: LossCause;
  /** The service of everything that is concerned; any may be where this is not known. */
  service?: string | undefined;
}

export interface Loss extends LossReason {
  /** Null when the type of the lost events is unknown. */
  eventType: EventType | null;
  count: number;
  fromNs: bigint;
  toNs: bigint;
}

/** Returns the reason as it is stored: a reader that knows causes only finds an unknown one. */
export function encodeReason({ cause, service }: LossReason): string {
  if (service === undefined) return cause;
  const text = `${cause} ${service}`;
  return Buffer.byteLength(text) <= WORD_MAX ? text : cause;
}

/** A reason that is not known may concern any service. */
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
  /** How long the node slept before this step. */
  suspendedNs: bigint;
}
