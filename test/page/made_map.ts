/** Maps as the daemon counts them, by a rule that looks at each one alone. */

import fc from 'fast-check';
import { addTimeTexts } from '../../daemon/base/time_text.ts';
import type { HeatmapAnswer } from '../../daemon/contract/received.ts';
import { ROW_EDGES } from '../../daemon/model/duration_rows.ts';

export interface Timed {
  at: bigint;
  durationNs: bigint;
  failed: boolean;
}

export const BASE = 1_763_683_200_000_000_001n;

const durationNs = fc.oneof(
  fc.bigInt({ min: 100n, max: 2n ** 63n - 1n }),
  fc.bigInt({ min: 100n, max: 5_000_000_000n }),
  fc.constantFrom(1_000_000n, 999_999n, 2n ** 53n + 1n, 2n ** 63n - 1n),
);

export const timedAll = fc.array(
  fc.record({
    at: fc.bigInt({ min: 0n, max: 9_999n }).map((offset) => BASE + offset),
    durationNs,
    failed: fc.boolean(),
  }),
  { minLength: 1, maxLength: 80 },
);

export function mapAnswer(all: readonly Timed[], columnNs = 100n): HeatmapAnswer {
  const counted = new Map<string, [number, number, number, number]>();
  for (const { at, durationNs, failed } of all) {
    const column = Number((at - BASE) / columnNs);
    const row = ROW_EDGES.findLastIndex((edge) => edge <= durationNs);
    const cell = counted.get(`${column} ${row}`) ?? [column, row, 0, 0];
    counted.set(`${column} ${row}`, [column, row, cell[2] + 1, cell[3] + Number(failed)]);
  }
  const cells = [...counted.values()].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const rows = cells.map(([, row]) => row);
  const [first, last] = [Math.min(...rows), Math.max(...rows)];
  const durations = all.map((one) => one.durationNs);
  return {
    ...{
      of: 'transactions',
      ...addTimeTexts({ from: BASE, to: BASE + 10_000n }),
      column_ns: columnNs,
      column_count: Number(10_000n / columnNs),
    },
    ...{ first_row: first, row_edges: ROW_EDGES.slice(first, last + 2), cells },
    total: {
      count: all.length,
      failed: all.filter(({ failed }) => failed).length,
      duration_ns: {
        sum: durations.reduce((sum, ns) => sum + ns, 0n),
        max: durations.reduce((most, ns) => (ns > most ? ns : most)),
      },
    },
    coverage: {
      complete: true,
      lost: 0,
      losses: [],
      ...addTimeTexts({ recorded_until: BASE + 10_000n }),
      nodes: [],
      node_count: 0,
    },
  };
}
