/** Records that are kept beside the events: losses, and steps of the clock. */
import type { EventType } from '../../../bpf/schema/index.ts';
import type { LossCause } from '../../../bpf/schema/losses.ts';

export interface Loss {
  cause: LossCause;
  /** Null when the type of the lost events is unknown. */
  eventType: EventType | null;
  count: number;
  fromNs: bigint;
  toNs: bigint;
}

export interface ClockStep {
  bootNs: bigint;
  /** Wall clock minus boot clock. */
  offsetNs: bigint;
  kind: 'start' | 'slew' | 'step' | 'suspend';
  /** How long the node slept before this step. */
  suspendedNs: bigint;
}
