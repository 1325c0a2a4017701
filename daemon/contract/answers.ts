/** Schemas of events, statistics, states and failures in the API's answers. */

import { z } from 'zod';
import { apiEventSchema, int64 } from '../../bpf/schema/api.ts';
import { ERRORS, type ErrorCode } from '../base/problem.ts';
import { DIMENSION_NAMES } from '../sums/dimensions.ts';
import { STATS_ROWS_MAX } from '../sums/stats.ts';
import { coverageSchema } from './coverage_schema.ts';
import { dateTime } from './values.ts';
import { AGENT_STATES, SCOPES } from './words.ts';

export const eventsSchema = z.object({
  events: z.array(apiEventSchema),
  next_cursor: z.string().nullable().meta({ description: 'where the next page begins; null on the last one' }),
  coverage: coverageSchema,
});

const quantile = (description: string) => int64().nullable().meta({ description });

const summed = {
  count: z.int().nonnegative().meta({ description: 'events' }),
  error_count: z.int().nonnegative().meta({ description: 'events that failed' }),
  bytes: z.bigint().meta({ type: 'integer', description: 'that were transferred; exact, however many' }),
  duration_ns: z
    .object({
      sum: z.bigint().meta({ type: 'integer', description: 'exact; calls of several threads may overlap in time' }),
      p50: quantile('within 1 % (1/128); null without events, like the others'),
      p90: quantile('within 1 %'),
      p99: quantile('within 1 %'),
      max: quantile('exact'),
    })
    .meta({ description: 'sum and quantiles of the durations' }),
};

export const statsSchema = z.object({
  stats: z
    .array(
      z.object({
        bucket_start_ns: int64().nullable().meta({ description: 'null without buckets' }),
        group: z
          .partialRecord(z.enum(DIMENSION_NAMES), z.union([z.string(), z.number()]).nullable())
          .meta({ description: 'a value for each name in group_by; null where an event has none' }),
        ...summed,
      }),
    )
    .max(STATS_ROWS_MAX)
    .meta({ description: 'by bucket, then by group; those without events are left out' }),
  total: z.object(summed).meta({ description: 'over all buckets and groups' }),
  coverage: coverageSchema,
});

export const healthResponse = z
  .strictObject({ status: z.literal('ok') })
  .meta({ description: 'The daemon answers; it says nothing of the recording.' });

export const readyResponse = z
  .strictObject({
    status: z.literal('ready'),
    recordings: z.array(
      z.strictObject({
        recording_id: z.string().meta({ description: '16 hex digits' }),
        node: z.string().meta({ description: 'host that recorded it' }),
        source: z.enum(['live', 'imported', 'named']).meta({ description: 'from --data, its imports, or --recording' }),
        damaged: z
          .boolean()
          .meta({ description: 'parts of it were found that cannot be read; answers leave them out' }),
        agent: z.strictObject({
          state: z.enum(AGENT_STATES).meta({
            description:
              'recording; failing: it is there and cannot write; stopped: it has ended; killed: it did not end, and is gone; silent: it is there and writes nothing; none: no agent ever wrote it',
          }),
          alive_at: z
            .string()
            .nullable()
            .meta({ description: 'RFC 3339: until then an agent is known to have recorded' }),
        }),
      }),
    ),
    unreadable: z
      .array(
        z.strictObject({
          file: z.string(),
          code: z.string().meta({ description: 'as of a problem' }),
          reason: z.string(),
        }),
      )
      .meta({ description: 'files in the folder of imports that the others are served without' }),
    fleet: z
      .strictObject({
        nodes: z.strictObject({
          current: z.number().int().meta({ description: 'heard within a minute' }),
          silent: z.number().int().meta({ description: 'not heard for longer' }),
          ended: z.number().int().meta({
            description: 'ended, with all that they recorded having arrived, or silent for an hour',
          }),
        }),
      })
      .nullable()
      .meta({ description: 'of a daemon that serves a fleet: its server answers; null for one that serves files' }),
    sessions: z.strictObject({
      kept: z.boolean().meta({ description: 'whether replay sessions outlive the daemon' }),
      failure: z
        .string()
        .nullable()
        .meta({ description: 'why changes of theirs cannot be written just now; they are tried again' }),
    }),
  })
  .meta({
    description:
      'Every recording that is served, or the fleet, can be read, but for imports that are unreadable. Otherwise the answer is a problem with status 503.',
  });

export const accessResponse = z
  .strictObject({
    token_needed: z.boolean().meta({ description: 'whether this daemon refuses requests without a token' }),
    name: z.string().nullable().meta({ description: 'of the token; null when none is needed' }),
    scopes: z
      .array(z.enum(SCOPES))
      .meta({ description: 'what the client may do: all of them when no token is needed' }),
    expires_at: dateTime('when the token expires').nullable().meta({ description: 'null when it does not' }),
  })
  .meta({ description: 'What the asking client may do.' });

const place = { message: z.string() };

/** A failure: RFC 9457 problem details. */
export const problemSchema = z
  .object({
    type: z.string().meta({ description: 'urn:kreplay:error: and the code', format: 'uri' }),
    title: z.string(),
    status: z.int(),
    detail: z.string().meta({ description: 'what went wrong this time' }),
    code: z.enum(Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]]).meta({ description: 'stable, for programs' }),
    errors: z
      .array(
        z.union([
          z.object({ parameter: z.string().meta({ description: 'of the query, the path or the headers' }), ...place }),
          z.object({ pointer: z.string().meta({ description: 'into the body, RFC 6901' }), ...place }),
        ]),
      )
      .optional()
      .meta({ description: 'each input that is wrong' }),
  })
  .meta({ id: 'problem' });
