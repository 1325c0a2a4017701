/** Describes the replay endpoints for the API's document. */
import { z } from 'zod';
import { apiEventSchema, int64 } from '../../../bpf/schema/api.ts';
import type { ErrorCode } from '../../problem.ts';
import { sessionsQuerySchema } from '../../query/sessions_query.ts';
import {
  changeRequest,
  createRequest,
  noFields,
  seekRequest,
  stepRequest,
  timelineParameters,
  whatIfRequest,
} from '../../replay/contract.ts';
import { STATES } from '../../replay/transitions.ts';
import type { Endpoint } from './endpoint.ts';
import { count, dateTime, durationNs } from './values.ts';

const clockSchema = z
  .array(
    z.object({
      node: z.string(),
      offset_ns: int64().meta({ description: 'added to the times of its clock, nanoseconds' }),
      stepped_ns: durationNs(
        'total size of all steps of its clock, forward or back, while the transaction ran, as recorded',
      ),
      source: z.enum(['override', 'none']).meta({
        description: 'source of the offset: the caller, or none (then it is 0: times are those of the node)',
      }),
    }),
  )
  .meta({ description: 'of each node that recorded some of it' });

export const sessionSchema = z
  .object({
    session_id: z.string(),
    transaction_id: z.string(),
    speed_factor: z.number(),
    extra_latency_ns: durationNs('added to every event'),
    timeout_ns: durationNs("a caller's deadline, from the start").nullable(),
    max_gap_ns: durationNs('the longest gap in which nothing is under way').nullable(),
    clock: clockSchema,
    loop: z.boolean().meta({ description: 'whether it begins again at its end' }),
    state: z.enum(STATES),
    position_ns: durationNs("on the replay's own time line, from its first event"),
    duration_ns: durationNs(
      "of its own events, as recorded; by the nodes' own clocks until all events have been looked at",
    ),
    replay_duration_ns: durationNs(
      'with the extra latency, before speed; null until all events have been looked at',
    ).nullable(),
    replay_end_ns: durationNs(
      'end of its last event, which may be write-back long after its own events; replay_duration_ns where a recording of an older version does not separate them; null likewise',
    ).nullable(),
    event_index: count('of the next event; the event count when none is left'),
    event_count: count('events of the transaction'),
    times_out: z
      .boolean()
      .nullable()
      .meta({ description: 'whether an event of its own would end after the deadline; null until it is known' }),
    timeout_event_id: z.string().nullable(),
    rounds: count('times that it came to its end and began again'),
    lateness: z
      .object({
        p50_ns: z.number(),
        p99_ns: z.number(),
        max_ns: int64(),
        late_events: count('events that were sent more than 1 ms later than due'),
      })
      .meta({ description: 'how much later than due events were sent' }),
    starvations: count('times that an event was due before it had been read'),
    failure: z
      .string()
      .nullable()
      .meta({ description: 'why the daemon stopped it by itself, or cannot play it any more' }),
    last_event_id: count('of the newest frame of its stream before this: `Last-Event-ID` to read on from here'),
    created_at: dateTime('when it was made'),
    updated_at: dateTime('when it was changed last'),
  })
  .meta({ id: 'session' });

const replaySchema = z.object({
  index: count('in the order of the replay'),
  offset_ns: durationNs("from the start, on the replay's own time line"),
  due_ns: durationNs("when it was due, on the daemon's steady clock"),
  lateness_ns: durationNs('how much later it was sent'),
  duration_ns: durationNs('with the extra latency'),
  after_timeout: z.boolean().meta({ description: 'whether it ends after the deadline, and its caller waits for it' }),
});

const [sysWriteSchema, blockIoSchema, sysSyncSchema] = apiEventSchema.options;

export const replayedEventSchema = z.discriminatedUnion('event_type', [
  sysWriteSchema.extend({ replay: replaySchema }).meta({ id: 'replayed_sys_write' }),
  blockIoSchema.extend({ replay: replaySchema }).meta({ id: 'replayed_block_io' }),
  sysSyncSchema.extend({ replay: replaySchema }).meta({ id: 'replayed_sys_sync' }),
]);

const scheduled = {
  replay_offset_ns: durationNs("from the start, on the replay's own time line"),
  replay_duration_ns: durationNs('with what was added'),
};
const inTimeline = {
  replay_index: count('in the order of the replay'),
  ...scheduled,
  after_timeout: z.boolean().meta({ description: 'whether it ends after the deadline, and its caller waits for it' }),
};

const timelineSchema = z.object({
  events: z.array(
    z.discriminatedUnion('event_type', [
      sysWriteSchema.extend(inTimeline).meta({ id: 'scheduled_sys_write' }),
      blockIoSchema.extend(inTimeline).meta({ id: 'scheduled_block_io' }),
      sysSyncSchema.extend(inTimeline).meta({ id: 'scheduled_sys_sync' }),
    ]),
  ),
  next_event_index: count('where the next part begins; null after the last one').nullable(),
});

const whatIfSchema = z.object({
  transaction_id: z.string(),
  extra_latency_ns: durationNs('added to every event that fits'),
  timeout_ns: durationNs("a caller's deadline, from the start").nullable(),
  clock: clockSchema,
  event_count: count('events of the transaction'),
  written_back_count: count(
    'how many of these write its data back to disk, mostly later: no duration includes them, and none is late; null where a recording of an older version does not separate them, and all count as its own',
  ).nullable(),
  affected_count: count('events that get the latency'),
  duration_ns: durationNs('of its own events, as recorded'),
  replay_duration_ns: durationNs('likewise, with the extra latency'),
  times_out: z.boolean().meta({ description: 'whether an event of its own would end after the deadline' }),
  after_timeout_count: count('events that would'),
  smallest_latency_ns: durationNs(
    'smallest extra latency with which an event of its own would end after the deadline; null when there is none',
  ).nullable(),
  after_timeout: z.array(
    z.discriminatedUnion('event_type', [
      sysWriteSchema.extend(scheduled).meta({ id: 'late_sys_write' }),
      blockIoSchema.extend(scheduled).meta({ id: 'late_block_io' }),
      sysSyncSchema.extend(scheduled).meta({ id: 'late_sys_sync' }),
    ]),
  ),
});

const sessionId = z.object({ session_id: z.string() });
const oneSession = { 'application/json': sessionSchema };
const BODY_ERRORS: readonly ErrorCode[] = [
  'invalid_parameter',
  'invalid_body',
  'malformed_json',
  'body_too_large',
  'unsupported_media_type',
];
const COMMAND_ERRORS: readonly ErrorCode[] = [
  ...BODY_ERRORS,
  ...([
    'session_not_found',
    'shutting_down',
    'transaction_not_found',
    'invalid_transition',
    'replay_capacity',
  ] as const),
];

const CURL_BODIES: Readonly<Record<string, string>> = {
  seek: `--json '{"event_index": 0}'`,
  step: `--json '{"count": 2}'`,
};

function command(name: string, summary: string, body: z.ZodType, answer: z.ZodType = sessionSchema): Endpoint {
  return {
    method: 'post',
    path: `/api/replay/sessions/{session_id}/${name}`,
    operationId: `${name}Session`,
    tag: 'replay',
    summary,
    curl: `"$api/api/replay/sessions/$session/${name}" ${CURL_BODIES[name] ?? '-X POST'}`,
    pathParameters: sessionId,
    body,
    success: { status: 200, description: 'The session as it is now.', content: { 'application/json': answer } },
    errors: [...COMMAND_ERRORS, 'event_not_found', 'busy'],
  };
}

const sessionsSchema = z.object({
  sessions: z.array(sessionSchema),
  next_cursor: z.string().nullable().meta({ description: 'where the next page begins; null on the last one' }),
});

export const REPLAY_ENDPOINTS: readonly Endpoint[] = [
  {
    method: 'post',
    path: '/api/replay/sessions',
    operationId: 'createSession',
    tag: 'replay',
    summary: 'A session that plays a transaction',
    curl: '"$api/api/replay/sessions" --json \'{"transaction_id": "order-1", "speed_factor": 0.5}\'',
    body: createRequest,
    success: {
      status: 201,
      description: 'The session, ready to be played.',
      content: oneSession,
      headers: { Location: 'path of the session' },
    },
    errors: [...BODY_ERRORS, 'transaction_not_found', 'session_limit', 'busy', 'shutting_down'],
  },
  {
    method: 'get',
    path: '/api/replay/sessions',
    operationId: 'listSessions',
    tag: 'replay',
    summary: 'All sessions',
    curl: '"$api/api/replay/sessions"',
    query: sessionsQuerySchema,
    success: {
      status: 200,
      description: 'As they are now, the oldest first.',
      content: { 'application/json': sessionsSchema },
    },
    errors: ['invalid_parameter', 'invalid_cursor', 'cursor_mismatch'],
  },
  {
    method: 'get',
    path: '/api/replay/sessions/{session_id}',
    operationId: 'getSession',
    tag: 'replay',
    summary: 'One session',
    curl: '"$api/api/replay/sessions/$session"',
    pathParameters: sessionId,
    success: { status: 200, description: 'As it is now.', content: oneSession },
    errors: ['invalid_parameter', 'session_not_found', 'shutting_down'],
  },
  {
    method: 'patch',
    path: '/api/replay/sessions/{session_id}',
    operationId: 'changeSession',
    tag: 'replay',
    summary: 'Change a session as it plays',
    curl: '-X PATCH "$api/api/replay/sessions/$session" --json \'{"speed_factor": 2, "extra_latency_ns": 5000000}\'',
    description:
      'It stays where it is. Extra latency holds from the next event on, while it plays from the next that is not due ' +
      'within 20 ms; a seek, or playing again from the start, lays the whole time line out with it.',
    pathParameters: sessionId,
    body: changeRequest,
    success: { status: 200, description: 'The session as it is now.', content: oneSession },
    errors: COMMAND_ERRORS,
  },
  {
    method: 'delete',
    path: '/api/replay/sessions/{session_id}',
    operationId: 'deleteSession',
    tag: 'replay',
    summary: 'End a session and forget it',
    curl: '-X DELETE "$api/api/replay/sessions/$session"',
    pathParameters: sessionId,
    success: { status: 204, description: 'It is gone.' },
    errors: ['invalid_parameter', 'session_not_found', 'shutting_down'],
  },
  command('play', 'Play on', noFields),
  command('pause', 'Pause', noFields),
  command('stop', 'Stop for good', noFields),
  command('seek', 'Go to a place', seekRequest),
  command(
    'step',
    'Send events now, or move back',
    stepRequest,
    z.object({ session: sessionSchema, events: z.array(replayedEventSchema) }),
  ),
  {
    method: 'get',
    path: '/api/replay/sessions/{session_id}/timeline',
    operationId: 'getTimeline',
    tag: 'replay',
    summary: 'When each event is played',
    curl: '"$api/api/replay/sessions/$session/timeline?limit=10"',
    pathParameters: sessionId,
    query: timelineParameters,
    success: {
      status: 200,
      description: 'Events in the order of the replay; as NDJSON each on a line of its own.',
      content: { 'application/json': timelineSchema, 'application/x-ndjson': 'an event on each line' },
    },
    errors: [
      'invalid_parameter',
      'not_acceptable',
      'session_not_found',
      'shutting_down',
      'transaction_not_found',
      'busy',
    ],
  },
  {
    method: 'post',
    path: '/api/replay/whatif',
    operationId: 'whatIf',
    tag: 'replay',
    summary: 'What extra latency would do, without playing it',
    curl: '"$api/api/replay/whatif" --json \'{"transaction_id": "order-1", "extra_latency_ns": 5000000, "timeout_ns": 250000000}\'',
    body: whatIfRequest,
    success: {
      status: 200,
      description: 'How long it would take, and what would be too late.',
      content: { 'application/json': whatIfSchema },
    },
    errors: [...BODY_ERRORS, 'transaction_not_found', 'shutting_down', 'busy'],
  },
  {
    method: 'get',
    path: '/api/replay/sessions/{session_id}/events',
    operationId: 'streamSession',
    tag: 'replay',
    summary: 'Events as they are played',
    curl: '-N --max-time 5 "$api/api/replay/sessions/$session/events"',
    description:
      'Frames: `event`, `state` at every change, `gap` when some were missed, `end`. After the daemon was started again a ' +
      '`gap` has `"missed": null`, and the `state` after it the place where the session goes on.',
    pathParameters: sessionId,
    headers: z.object({
      'Last-Event-ID': z
        .string()
        .optional()
        .meta({ description: 'id of the last frame seen; 0 for all that is still kept' }),
    }),
    success: {
      status: 200,
      description: 'Server-sent events.',
      content: { 'text/event-stream': 'frames with `event`, `id` and `data` in JSON' },
    },
    errors: ['invalid_parameter', 'session_not_found', 'shutting_down', 'transaction_not_found', 'session_limit'],
  },
];
