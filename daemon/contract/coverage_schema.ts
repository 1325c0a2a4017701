/** The part of an answer that describes missing events. */
import { z } from 'zod';
import { int64 } from '../../bpf/schema/api.ts';

/**
 * Maximum number of gaps in one answer. If there are more, gaps of the same node, cause and service that are close to
 * each other are merged into one longer gap, whose lost events are the sum of theirs.
 */
export const GAPS_MAX = 1000;

/** Maximum number of calls in progress that one answer describes. */
export const IN_PROGRESS_MAX = 100;

/** An event whose end is not known. */
const unendedSchema = z.object({
  event_type: z.string(),
  timestamp_ns: int64().meta({ description: 'start, nanoseconds since the epoch' }),
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

const gapSchema = z.object({
  from: int64().meta({ description: 'nanoseconds since the epoch' }),
  to: int64().meta({ description: 'nanoseconds since the epoch' }),
  lost: z.int().nonnegative().meta({ description: 'missing events; 0 when they could not be counted' }),
  cause: z.string().meta({ description: 'why events are missing, such as ring_full or agent_stopped' }),
  service: z.string().optional().meta({
    description: 'service of all missing events, none of which has an owner; absent where it is not known',
  }),
  node: z.string().nullable().meta({
    description:
      'host whose recording lacks the events; null for an unreadable file whose host is not known, and for a shard of a fleet whose hosts are not known',
  }),
});

export const coverageSchema = z
  .object({
    complete: z.boolean().meta({ description: 'whether nothing is missing in the window, up to recorded_until' }),
    lost: z.int().nonnegative().meta({ description: 'events that are missing, as far as they could be counted' }),
    gaps: z.array(gapSchema).meta({
      description: `at most about ${GAPS_MAX}: beyond that, gaps of the same node, cause and service that are close to each other are merged`,
    }),
    others: z.array(gapSchema).optional().meta({
      description:
        'losses in the window that concern only services other than those of the query or of its transaction; absent without any',
    }),
    recorded_until: int64().nullable().meta({
      description:
        'nanoseconds since the epoch: everything that happened by then on all nodes of the query is in the recordings or in gaps; without `to`, the window ends there; null when a node has no recording',
    }),
    nodes: z
      .array(z.object({ node: z.string(), recorded_until: int64() }))
      .meta({ description: 'recorded_until of each node' }),
    in_progress: z
      .object({
        count: z.int().positive(),
        oldest: int64().meta({
          description: 'start of the call or request that began first, nanoseconds since the epoch',
        }),
        events: z
          .array(unendedSchema)
          .meta({ description: `calls and requests that began first, at most ${IN_PROGRESS_MAX}` }),
      })
      .optional()
      .meta({
        description:
          'calls and requests of the query that had begun and not ended at recorded_until of their node, each also in a gap from its start; absent without any',
      }),
    unreadable: z.array(z.string()).optional().meta({
      description:
        'unreadable imported files, whose events may be missing; absent without any; /readyz reports why they are unreadable',
    }),
  })
  .meta({
    description:
      'events that are missing in the window of the query, and in the time and on the nodes where its transactions went on',
  });

export type Coverage = z.infer<typeof coverageSchema>;
