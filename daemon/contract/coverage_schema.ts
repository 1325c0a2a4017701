/** The part of an answer that describes missing events. */
import { z } from 'zod';
import { int64 } from '../../bpf/schema/api.ts';
import { durationNs, time, timeOrNull } from './values.ts';

/**
 * Number of gaps above which the gaps of an answer are merged. Gaps of the same node, cause and service that are close
 * to each other become one longer gap, and their lost events are added up.
 */
export const GAPS_MAX = 1000;

/** Maximum number of calls in progress that one answer describes. */
export const IN_PROGRESS_MAX = 100;

/**
 * Maximum number of sums of losses in one answer: a sum for each cause and node, or for each cause alone if there would
 * be more.
 */
export const LOSSES_MAX = 64;

/** Limits of a summary; `coverage=full` has higher limits. */
export const SUMMARY_NODES_MAX = 16;
export const SUMMARY_IN_PROGRESS_MAX = 5;
export const SUMMARY_FILES_MAX = 5;

const COVERAGE_DETAILS = ['summary', 'full'] as const;
export type CoverageDetail = (typeof COVERAGE_DETAILS)[number];

/** Maximum number of unreadable files that one answer names. */
export const UNREADABLE_MAX = 100;

/** The parameter of requests whose answers have a coverage. */
export const coverageDetail = z
  .enum(COVERAGE_DETAILS, { error: 'must be summary or full' })
  .meta({ description: 'full adds each gap to the coverage of the answer; summary unless given' });

/** An event whose end is not known. */
const unendedSchema = z.object({
  event_type: z.string(),
  ...time('timestamp_ns', 'start'),
  service_name: z.string(),
  transaction_id: z.string().nullable(),
  trace_id: z.string().nullable(),
  node: z.string(),
  pid: z.int(),
  tid: z.int(),
  comm: z.string(),
  syscall: z.string().optional().meta({ description: 'name of the system call, for a call' }),
  file: z.string().nullable().optional().meta({ description: 'file of a call; null when it is not known' }),
  operation: z.string().optional().meta({ description: 'operation of a block request' }),
  device: z.string().optional().meta({ description: 'device of a block request' }),
  queued_by: z
    .object({ service_name: z.string(), transaction_id: z.string().nullable() })
    .nullable()
    .optional()
    .meta({ description: 'owner of the task that queued a block request' }),
});

/** Bytes and durations of missing calls, which the agent recorded as sums. */
const sumsOfMissing = {
  bytes: int64()
    .optional()
    .meta({ description: 'bytes that the missing calls wrote; absent where the calls were not summed up' }),
  duration_ns: durationNs('sum of the durations of the missing calls; absent like `bytes`').optional(),
  longest_ns: durationNs('the longest duration of a missing call; absent like `bytes`').optional(),
};

const gapSchema = z.object({
  ...time('from', 'start'),
  ...time('to', 'end'),
  lost: z.int().nonnegative().meta({ description: 'missing events; 0 when they could not be counted' }),
  cause: z.string().meta({ description: 'why events are missing, such as ring_full or agent_stopped' }),
  service: z.string().optional().meta({
    description: 'service of all missing events; absent where it is not known',
  }),
  transaction_id: z.string().optional().meta({
    description: 'transaction of all missing events, in an answer about that transaction; absent where it is not known',
  }),
  ...sumsOfMissing,
  node: z.string().nullable().meta({
    description:
      'host whose recording lacks the events; null for an unreadable file whose host is not known, and for a shard of a fleet whose hosts are not known',
  }),
});

/** The share of events that are missing; see `losses`. */
const rateSchema = z.object({
  ...time('from', 'start of the span in which events were counted'),
  ...time('to', 'exclusive end of that span'),
  lost: z.int().positive().meta({ description: 'missing events of the gaps that lie in the span' }),
  recorded: z.int().nonnegative().meta({
    description: 'recorded events that began in the span, on the same nodes, whatever their owners and types',
  }),
  share: z.number().positive().max(1).meta({ description: 'lost / (lost + recorded)' }),
});

const lossSchema = z.object({
  cause: z.string().meta({ description: 'why events are missing, such as ring_full or agent_stopped' }),
  node: z
    .string()
    .nullable()
    .optional()
    .meta({
      description: `as in a gap; absent where a sum is over several nodes, because there would be more than ${LOSSES_MAX} sums`,
    }),
  lost: z.int().nonnegative().meta({ description: 'missing events, as far as they could be counted' }),
  ...sumsOfMissing,
  gap_count: z.int().positive().meta({ description: 'number of gaps' }),
  ...time('from', 'start of the first gap'),
  ...time('to', 'end of the last gap'),
  rate: rateSchema.nullable().meta({
    description:
      'how often events of the nodes are missing for this cause; null where the numbers are not known, as when no agent recorded, or are not both of events',
  }),
});

const summedLosses = (description: string) => z.array(lossSchema).max(LOSSES_MAX).meta({ description });

export const coverageSchema = z
  .object({
    complete: z.boolean().meta({ description: 'whether nothing is missing in the window, up to recorded_until' }),
    lost: z.int().nonnegative().meta({ description: 'events that are missing, as far as they could be counted' }),
    losses: summedLosses('sums of the gaps, one for each cause and node; those with most missing events first'),
    gaps: z
      .array(gapSchema)
      .optional()
      .meta({
        description: `with \`coverage=full\`: each gap, by start; at most about ${GAPS_MAX}: beyond that, gaps of the same node, cause and service that are close to each other are merged`,
      }),
    other_losses: summedLosses(
      'sums of losses in the window that concern only services other than those of the query or of its transaction; absent without any',
    ).optional(),
    others: z
      .array(gapSchema)
      .optional()
      .meta({ description: 'with `coverage=full`: the gaps of other_losses; absent without any' }),
    ...timeOrNull(
      'recorded_until',
      'everything that happened by then on all nodes of the query is in the recordings or in gaps; without `to`, the window ends there; null when a node has no recording',
    ),
    nodes: z.array(z.object({ node: z.string(), ...time('recorded_until', 'until when it is recorded') })).meta({
      description: `recorded_until of each node; in a summary of the ${SUMMARY_NODES_MAX} nodes whose recordings end first, if there are more`,
    }),
    node_count: z.int().nonnegative().meta({ description: 'number of all nodes' }),
    in_progress: z
      .object({
        count: z.int().positive(),
        ...time('oldest', 'start of the call or request that began first'),
        events: z.array(unendedSchema).meta({
          description: `calls and requests that began first, at most ${SUMMARY_IN_PROGRESS_MAX}, with \`coverage=full\` ${IN_PROGRESS_MAX}`,
        }),
      })
      .optional()
      .meta({
        description:
          'calls and requests of the query that had begun and not ended at recorded_until of their node, each also in a gap from its start; absent without any',
      }),
    unreadable: z
      .array(z.string())
      .optional()
      .meta({
        description: `unreadable imported files, whose events may be missing, at most ${SUMMARY_FILES_MAX}, with \`coverage=full\` ${UNREADABLE_MAX}; absent without any; /readyz reports why they are unreadable`,
      }),
  })
  .meta({
    description:
      'events that are missing in the window of the query, and in the time and on the nodes where its transactions went on',
  });

export type Coverage = z.infer<typeof coverageSchema>;
