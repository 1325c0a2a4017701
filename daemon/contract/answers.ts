/** Schemas of events, statistics, states and failures in the API's answers. */

import { z } from 'zod';
import { apiEventSchema, int64 } from '../../bpf/schema/api.ts';
import { ERRORS, type ErrorCode } from '../base/problem.ts';
import { DIMENSION_NAMES } from '../sums/dimensions.ts';
import { STATS_ROWS_MAX } from '../sums/stats.ts';
import { coverageSchema } from './coverage_schema.ts';
import { dateTime, timeOrNull } from './values.ts';
import { AGENT_STATES, SCOPES } from './words.ts';

export const eventsSchema = z.object({
  events: z.array(apiEventSchema),
  next_cursor: z.string().nullable().meta({ description: 'cursor of the next page; null on the last page' }),
  coverage: coverageSchema,
});

const quantile = (description: string) => int64().nullable().meta({ description });

const summed = {
  count: z.int().nonnegative().meta({ description: 'events' }),
  error_count: z.int().nonnegative().meta({ description: 'events that failed' }),
  bytes: z.bigint().meta({ type: 'integer', description: 'bytes that were transferred, exact for any number' }),
  duration_ns: z
    .object({
      sum: z.bigint().meta({ type: 'integer', description: 'exact sum; calls of several threads may overlap in time' }),
      p50: quantile('exact to within 1 % (1/128); null without events, like the other quantiles'),
      p90: quantile('exact to within 1 %'),
      p99: quantile('exact to within 1 %'),
      max: quantile('exact'),
    })
    .meta({ description: 'sum and quantiles of the durations' }),
};

export const statsSchema = z.object({
  stats: z
    .array(
      z.object({
        ...timeOrNull('bucket_start_ns', 'start of the bucket; null without buckets'),
        group: z
          .partialRecord(z.enum(DIMENSION_NAMES), z.union([z.string(), z.number()]).nullable())
          .meta({ description: 'a value for each name in group_by; null where an event has none' }),
        ...summed,
      }),
    )
    .max(STATS_ROWS_MAX)
    .meta({ description: 'ordered by bucket, then by group; groups without events are left out' }),
  total: z.object(summed).meta({ description: 'over all buckets and groups' }),
  coverage: coverageSchema,
});

export const healthResponse = z
  .strictObject({ status: z.literal('ok') })
  .meta({ description: 'The daemon answers. This says nothing about its recordings.' });

export const readyResponse = z
  .strictObject({
    status: z.literal('ready'),
    recordings: z.array(
      z.strictObject({
        recording_id: z.string().meta({ description: '16 hex digits' }),
        node: z.string().meta({ description: 'host that recorded it' }),
        source: z.enum(['live', 'imported', 'named']).meta({ description: 'from --data, its imports, or --recording' }),
        damaged: z.boolean().meta({ description: 'whether unreadable parts of it were found; answers leave them out' }),
        agent: z.strictObject({
          state: z.enum(AGENT_STATES).meta({
            description:
              'recording: the agent records; failing: it runs but is unable to write; stopped: it has ended; killed: it is gone and did not end properly; silent: it runs but writes nothing; none: no agent ever wrote this recording',
          }),
          alive_at: z
            .string()
            .nullable()
            .meta({ description: 'time until which an agent is known to have recorded, RFC 3339' }),
        }),
      }),
    ),
    unreadable: z
      .array(
        z.strictObject({
          file: z.string(),
          code: z.string().meta({ description: 'error code, as in a problem' }),
          reason: z.string(),
        }),
      )
      .meta({ description: 'unreadable files in the folder of imports; the other recordings are served without them' }),
    fleet: z
      .strictObject({
        nodes: z.strictObject({
          current: z.number().int().meta({ description: 'nodes heard within the last minute' }),
          silent: z.number().int().meta({ description: 'nodes not heard for longer' }),
          ended: z.number().int().meta({
            description: 'nodes that have ended and whose events have all arrived, or that were silent for an hour',
          }),
        }),
      })
      .nullable()
      .meta({ description: 'nodes of the fleet, whose server answers; null for a daemon that serves files' }),
    sessions: z.strictObject({
      kept: z.boolean().meta({ description: 'whether replay sessions outlive the daemon' }),
      failure: z
        .string()
        .nullable()
        .meta({ description: 'why changes of sessions are not written at present; writing is tried again' }),
    }),
  })
  .meta({
    description:
      'Every recording that is served, or the fleet, can be read, except for unreadable imports. Otherwise the answer is a problem with status 503.',
  });

export const accessResponse = z
  .strictObject({
    token_needed: z.boolean().meta({ description: 'whether this daemon refuses requests without a token' }),
    name: z.string().nullable().meta({ description: 'name of the token; null when none is needed' }),
    scopes: z
      .array(z.enum(SCOPES))
      .meta({ description: 'scopes that the client has: all of them when no token is needed' }),
    expires_at: dateTime('when the token expires').nullable().meta({ description: 'null when it does not' }),
  })
  .meta({ description: 'What the asking client may do.' });

const place = { message: z.string() };

/** A failure: RFC 9457 problem details. */
export const problemSchema = z
  .object({
    type: z.string().meta({ description: 'urn:kreplay:error: followed by the code', format: 'uri' }),
    title: z.string(),
    status: z.int(),
    detail: z.string().meta({ description: 'what went wrong this time' }),
    code: z
      .enum(Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]])
      .meta({ description: 'stable error code, for programs' }),
    errors: z
      .array(
        z.union([
          z.object({
            parameter: z.string().meta({ description: 'parameter of the query, the path or the headers' }),
            ...place,
          }),
          z.object({ pointer: z.string().meta({ description: 'JSON pointer into the body, RFC 6901' }), ...place }),
        ]),
      )
      .optional()
      .meta({ description: 'each input that is wrong' }),
  })
  .meta({ id: 'problem' });
