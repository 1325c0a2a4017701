/** Examples of what the map of durations and the comparison of two populations answer. */
import type { Example } from './endpoint.ts';
import { NODE, RECORDED_UNTIL_NS } from './recorded_examples.ts';

const COVERAGE = {
  complete: false,
  lost: 12,
  gaps: [
    { from: 1_763_682_600_000_000_000n, to: 1_763_682_601_000_000_000n, lost: 12, cause: 'ring_full', node: NODE },
  ],
  recorded_until: RECORDED_UNTIL_NS,
  nodes: [{ node: NODE, recorded_until: RECORDED_UNTIL_NS }],
};

export const HEATMAP_EXAMPLES: Readonly<Record<string, Example>> = {
  getHeatmap: {
    answers: {
      'application/json': {
        of: 'transactions',
        from: 1_763_682_300_000_000_000n,
        to: RECORDED_UNTIL_NS,
        column_ns: 15_000_000_000,
        column_count: 60,
        first_row: 70,
        row_edges: [23_714],
        cells: [[55, 70, 1, 0]],
        total: { count: 2, failed: 1, duration_ns: { sum: 247_116_800, max: 247_091_200 } },
        coverage: COVERAGE,
      },
    },
  },
  getDifferences: {
    answers: {
      'application/json': {
        of: 'transactions',
        window: { from: 1_763_682_300_000_000_000n, to: null, narrowed: false },
        selected: {
          count: 1,
          duration_ns: 247_091_200,
          breakdown: {
            queue_ns: 1_920_000,
            service_ns: 240_000_000,
            sync_ns: 384_000,
            write_ns: 153_600,
            request_ns: 0,
            untraced_ns: 4_633_600,
          },
        },
        others: {
          count: 1,
          duration_ns: 25_600,
          breakdown: { queue_ns: 0, service_ns: 0, sync_ns: 0, write_ns: 25_600, request_ns: 0, untraced_ns: 0 },
        },
        event_count: 6,
        too_few: true,
        differences: [],
        more: 0,
        tried: 0,
        equal: [],
        left_out: [],
        coverage: COVERAGE,
      },
    },
  },
};
