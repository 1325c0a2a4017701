/** Schemas of the replay API's requests. */

import { z } from 'zod';
import { EVENT_TYPES } from '../../bpf/schema/index.ts';
import { I64_MAX } from '../base/bigints.ts';
import { int64 } from './int64.ts';
import { FILES_MAX, integer, NAMES_MAX, parsed, TOO_MANY_FILES, TOO_MANY_NAMES } from './parameters.ts';
import type { SeekTarget } from './target.ts';

const MAX_INT64 = I64_MAX;
export const SPEED_FACTOR_MIN = 0.001;
export const SPEED_FACTOR_MAX = 1000;
/** Maximum extra latency: one hour. */
export const EXTRA_LATENCY_NS_MAX = 3_600_000_000_000n;
export const STEP_EVENTS_MAX = 10_000;

const speedFactor = z
  .number({ error: 'must be a number' })
  .min(SPEED_FACTOR_MIN, `must be at least ${SPEED_FACTOR_MIN}`)
  .max(SPEED_FACTOR_MAX, `must be at most ${SPEED_FACTOR_MAX}`)
  .meta({ description: '2 is twice as fast as it was' });

export const extraLatencyNs = int64(0n, EXTRA_LATENCY_NS_MAX).meta({
  description: 'how much longer each call that fits `only` takes, on the recorded time line, nanoseconds',
});

/**
 * An offset may be large, because a clock without a battery may be off by decades. Only the length of the replay after
 * the offsets are applied has a smaller limit (`SPAN_NS_MAX`).
 */
const offsetNs = int64(-MAX_INT64, MAX_INT64);

export const clockOffsetsNs = z
  .union([z.record(z.string(), offsetNs), z.literal('measured')], {
    error: 'must be an object with an offset for each node, or "measured"',
  })
  .default({})
  .meta({
    description:
      'offset of each node, which is added to the times of its clock so that all clocks agree, nanoseconds; or `measured`, with a fleet: the offsets that its nodes have measured, where they are at least three times their uncertainty',
  });
export type AskedOffsets = z.output<typeof clockOffsetsNs>;

export const timeoutNs = int64(1n, MAX_INT64)
  .nullable()
  .meta({ description: "a caller's deadline from the start of the transaction, nanoseconds" });

const maxGapNs = int64(0n, BigInt(Number.MAX_SAFE_INTEGER))
  .transform(Number)
  .nullable()
  .meta({ description: 'gaps in which nothing is under way are cut to this length, nanoseconds' });

export const names = (what: string) => buildListSchema(what, NAMES_MAX, TOO_MANY_NAMES);

export const files = () => buildListSchema('file', FILES_MAX, TOO_MANY_FILES);

const buildListSchema = (what: string, max: number, message: string) =>
  z.array(z.string().min(1, 'must not be empty')).min(1, `must name a ${what}`).max(max, message).optional();

export const only = z
  .strictObject({
    event_type: z.array(z.enum(EVENT_TYPES)).min(1, 'must name a type').optional(),
    service: names('service'),
    node: names('node'),
  })
  .transform(({ event_type, service, node }) => ({ eventTypes: event_type, services: service, nodes: node }))
  .meta({
    description:
      'events that get the latency: those that fit each list; calls unless event_type is given. With block_io a call takes longer by one latency for each run of its requests',
  });

export const createRequest = z.strictObject({
  transaction_id: z.string().min(1, 'must not be empty').meta({ description: 'transaction that is played' }),
  speed_factor: speedFactor.default(1),
  extra_latency_ns: extraLatencyNs.default(0n),
  timeout_ns: timeoutNs.default(null),
  max_gap_ns: maxGapNs.default(null),
  clock_offsets_ns: clockOffsetsNs,
  loop: z.boolean().default(false).meta({ description: 'whether the replay begins again at its end' }),
  only: only.prefault({}),
});
export type CreateRequest = z.output<typeof createRequest>;

const CHANGE_FIELDS = 'speed_factor, extra_latency_ns, loop, timeout_ns, max_gap_ns, only';

/** The settings that a client can change while the session plays. */
export const changeRequest = z
  .strictObject({
    speed_factor: speedFactor.optional(),
    extra_latency_ns: extraLatencyNs.optional(),
    loop: z.boolean().optional(),
    timeout_ns: timeoutNs.optional(),
    max_gap_ns: maxGapNs.optional(),
    only: only.optional(),
  })
  .refine((fields) => Object.keys(fields).length > 0, `at least one of ${CHANGE_FIELDS} is needed`);

/**
 * The position at which a playing session pauses by itself, given as the name of the session's field that contains the
 * position.
 */
export const UNTIL = 'replay_duration_ns';
export type Until = typeof UNTIL;

export const playRequest = z.strictObject({
  until: z
    .literal(UNTIL, `must be "${UNTIL}" or null`)
    .nullable()
    .optional()
    .meta({
      description: `"${UNTIL}" pauses the session there, before any event that starts later, unless it loops or is past that; null plays to the end`,
    }),
});

/** The body of a pause or stop request, which has no fields. */
export const noFields = z.strictObject({});

const anyInt64 = int64(-MAX_INT64 - 1n, MAX_INT64);
const SEEK_FIELDS = 'position_ns, timestamp_ns, event_id, event_index';

export const seekRequest = z
  .strictObject({
    position_ns: anyInt64.optional(),
    timestamp_ns: anyInt64.optional(),
    event_id: z.string().optional(),
    event_index: anyInt64.optional(),
  })
  .refine((fields) => Object.keys(fields).length === 1, `exactly one of ${SEEK_FIELDS} is needed`)
  .transform((fields) => fields as SeekTarget);

export const stepRequest = z.strictObject({
  count: z
    .int({ error: 'must be an integer' })
    .min(-STEP_EVENTS_MAX, `must be at least -${STEP_EVENTS_MAX}`)
    .max(STEP_EVENTS_MAX, `must be at most ${STEP_EVENTS_MAX}`)
    .refine((count) => count !== 0, 'must not be 0')
    .default(1),
});

const FRAMES = ['state', 'position', 'event'];
const FRAMES_MESSAGE = 'must be state, position or both, or state,event';

/** The kinds of frames that a stream sends. If `wanted` is undefined, the stream sends events and states. */
export const streamParameters = z.strictObject({
  frames: parsed(
    (text) => {
      const names = text.split(',');
      const wanted = { state: names.includes('state'), position: names.includes('position') };
      if (!names.every((name) => FRAMES.includes(name)) || new Set(names).size < names.length) return undefined;
      if (!names.includes('event')) return { wanted };
      return wanted.state && !wanted.position ? { wanted: undefined } : undefined;
    },
    FRAMES_MESSAGE,
    { type: 'string', pattern: '^(state|position|state,position|position,state|state,event|event,state)$' },
  )
    .meta({
      description:
        'frames that are wanted besides `gap` and `end`: `state,event` unless given; without `event` there are no gaps, and `position` comes 20 times a second while the session plays',
    })
    .optional(),
});

/** Upper limit of an event index, which no real index reaches. */
const INDEX_MAX = 9_999_999_999;
const TIMELINE_LIMIT_MAX = 10_000;
export const TIMELINE_LIMIT_DEFAULT = 1000;

/** The part of the time line that a client requests. */
export const timelineParameters = z.strictObject({
  event_index: integer(0, INDEX_MAX).meta({ description: 'index at which the part begins, 0 unless given' }).optional(),
  limit: integer(1, TIMELINE_LIMIT_MAX)
    .meta({
      description: `maximum number of events of an answer, ${TIMELINE_LIMIT_DEFAULT} unless given, or all as NDJSON; an answer of 8 MiB ends earlier: next_event_index shows whether there are more`,
    })
    .optional(),
});
