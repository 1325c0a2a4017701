/** The sums of a time window, as `GET /api/stats` returns them. */
import type { ExactInteger, ReceivedCoverage } from '../../contract/received.ts';
import type { CallTotals } from './sums.ts';

export interface WindowStats {
  stats: {
    group: {
      service: string | null;
      event_type: string | null;
      operation: string | null;
      syscall: string | null;
      device: string | null;
    };
    count: number;
    error_count: number;
    duration_ns: { sum: ExactInteger; p50: ExactInteger | null; p99: ExactInteger | null };
  }[];
  coverage: ReceivedCoverage;
}

export const GROUP_BY = 'service,event_type,operation,syscall,device';

export function toWindowSums({ stats }: WindowStats): CallTotals[] {
  return stats.map(({ group, count, error_count, duration_ns: { sum, p50, p99 } }) => ({
    call: group.operation ?? group.syscall ?? group.event_type ?? '',
    target: group.device,
    service: group.service ?? '',
    count,
    failed: error_count,
    totalNs: BigInt(sum),
    p50Ns: BigInt(p50 ?? 0),
    p99Ns: BigInt(p99 ?? 0),
  }));
}
