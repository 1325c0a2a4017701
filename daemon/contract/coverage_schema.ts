/** The part of an answer that describes missing events. */
import { z } from 'zod';
import { int64 } from '../../bpf/schema/api.ts';

/**
 * Limit of gaps in one answer. Beyond it, gaps of one node, cause and service that are close to each other are merged
 * into a longer one, whose lost events are their sum.
 */
export const GAPS_MAX = 1000;

/** Number of calls in progress that one answer describes. */
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
  syscall: z.string().optional().meta({ description: 'of a call' }),
  file: z.string().nullable().optional().meta({ description: 'of a call; null when not known' }),
  operation: z.string().optional().meta({ description: 'of a block request' }),
  device: z.string().optional().meta({ description: 'of a block request' }),
  queued_by: z
    .object({ service_name: z.string(), transaction_id: z.string().nullable() })
    .nullable()
    .optional()
    .meta({ description: 'of a block request' }),
});

const gapSchema = z.object({
  from: int64().meta({ description: 'nanoseconds since the epoch' }),
  to: int64().meta({ description: 'nanoseconds since the epoch' }),
  lost: z.int().nonnegative().meta({ description: '0 when they could not be counted' }),
  cause: z.string().meta({ description: 'why events are missing, such as ring_full or agent_stopped' }),
  service: z.string().optional().meta({
    description: 'only where it is known: the service of all events that are concerned, none of which has an owner',
  }),
  node: z.string().nullable().meta({
    description:
      'host whose recording lacks them; null for a file that cannot be read and does not say whose it is, and for a shard of a fleet of which it is not known whose events it has',
  }),
});

export const coverageSchema = z
  .object({
    complete: z.boolean().meta({ description: 'whether nothing is missing in the window, up to recorded_until' }),
    lost: z.int().nonnegative().meta({ description: 'events that are missing, as far as they could be counted' }),
    gaps: z.array(gapSchema).meta({
      description: `about ${GAPS_MAX} at most: gaps of a node, cause and service that are close to each other are merged beyond that`,
    }),
    others: z.array(gapSchema).optional().meta({
      description:
        'only when there are some: losses in the window that are of other services than those of the query or of its transaction',
    }),
    recorded_until: int64().nullable().meta({
      description:
        'nanoseconds since the epoch: what happened by then on all nodes of the query is in the recordings, or in gaps; without `to` the window ends there; null when a node has no recording',
    }),
    nodes: z
      .array(z.object({ node: z.string(), recorded_until: int64() }))
      .meta({ description: 'recorded_until of each node' }),
    in_progress: z
      .object({
        count: z.int().positive(),
        oldest: int64().meta({ description: 'start of the one that began first, nanoseconds since the epoch' }),
        events: z.array(unendedSchema).meta({ description: `those that began first, ${IN_PROGRESS_MAX} at most` }),
      })
      .optional()
      .meta({
        description:
          'only when there are some: calls and requests of the query that had begun and not ended at recorded_until of their node; each is also in a gap from its start',
      }),
    unreadable: z.array(z.string()).optional().meta({
      description:
        'only when there are some: imported files that cannot be read, whose events may be missing; /readyz reports why',
    }),
  })
  .meta({
    description:
      'what the recording is missing in the window of the query, and in the time and on the nodes on which its transactions went on',
  });

export type Coverage = z.infer<typeof coverageSchema>;
