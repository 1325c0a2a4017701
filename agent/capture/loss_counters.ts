/** Reads the kernel's loss counters and reports what was lost since the last call. */
import type { BpfMap } from 'libbpf-ts';
import { contextEnd } from '../../bpf/schema/definitions.ts';
import { EVENTS, type EventType } from '../../bpf/schema/index.ts';
import {
  KERNEL_LOSS_CAUSES,
  KERNEL_LOSS_WORDS,
  LOSS_CAUSES_MAX,
  LOSS_TYPES_MAX,
  type LossCause,
} from '../../bpf/schema/losses.ts';
import type { LossReason } from '../recording/format/losses.ts';

export interface LossCount extends LossReason {
  /** Null for an unknown type, or for a definition, whose loss leaves events with an unknown owner, process or file. */
  eventType: EventType | null;
  count: number;
}

/** A count of the kernel side, with the type of the records that were lost. */
export interface KernelLossCount extends LossCount {
  recordType: number;
}

export interface LossCounters {
  /** Returns what was lost since the last call, usually nothing. */
  take(): { losses: KernelLossCount[]; contextEndsLost: boolean };
}

export function createLossCounters(map: BpfMap): LossCounters {
  const key = new Uint8Array(4);
  const counters = new Float64Array(LOSS_TYPES_MAX * LOSS_CAUSES_MAX);
  const raw = new Uint8Array(counters.length * 8);
  const words = new Uint32Array(raw.buffer);

  return {
    take() {
      map.get(key, raw);
      const losses: KernelLossCount[] = [];
      let contextEndsLost = false;
      for (let i = 0; i < counters.length; i++) {
        const total = words[2 * i]! + words[2 * i + 1]! * 2 ** 32;
        if (total === counters[i]) continue;
        const type = Math.trunc(i / LOSS_CAUSES_MAX);
        if (type === contextEnd.id) contextEndsLost = true;
        losses.push({
          cause: causeOf(i % LOSS_CAUSES_MAX, type),
          eventType: EVENTS.find((event) => event.id === type)?.name ?? null,
          count: total - counters[i]!,
          recordType: type,
        });
        counters[i] = total;
      }
      return { losses, contextEndsLost };
    },
  };
}

function causeOf(kernelCause: number, type: number): LossCause {
  const isOfEvent = EVENTS.some((event) => event.id === type);
  if (!isOfEvent && kernelCause < KERNEL_LOSS_CAUSES.LOSS_MARKER_UNREADABLE) return 'definition_lost';
  return KERNEL_LOSS_WORDS[kernelCause] ?? 'bad_record';
}
