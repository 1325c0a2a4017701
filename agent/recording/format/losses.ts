/** What stands beside the events: losses, and steps of the clock. */
import type { EventType } from '../../../bpf/schema/index.ts';
import type { LossCause } from '../../../bpf/schema/losses.ts';

export interface Loss {
  cause: LossCause;
  /** Null when it is not known what was lost. */
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
  /** How long the node slept before this. */
  suspendedNs: bigint;
}
