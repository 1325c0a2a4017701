/** Describes the replay endpoints for the API's document. */
import { z } from 'zod';
import type { ErrorCode } from '../base/problem.ts';
import type { Endpoint } from './endpoint.ts';
import { curvesSchema, replayedEventSchema, sessionSchema, timelineSchema, whatIfSchema } from './replay_answers.ts';
import {
  changeRequest,
  createRequest,
  noFields,
  playRequest,
  seekRequest,
  stepRequest,
  streamParameters,
  timelineParameters,
} from './replay_requests.ts';
import { sessionsQuerySchema } from './sessions_query.ts';
import { whatIfRequest } from './what_if_requests.ts';

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
  play: `--json '{"until": "replay_duration_ns"}'`,
  seek: `--json '{"event_index": 0}'`,
  step: `--json '{"count": 2}'`,
};

interface CommandDeclaration {
  name: string;
  summary: string;
  description: string;
  body: z.ZodType;
  answer?: z.ZodType;
}

function buildCommandEndpoint({
  name,
  summary,
  description,
  body,
  answer = sessionSchema,
}: CommandDeclaration): Endpoint {
  return {
    method: 'post',
    path: `/api/replay/sessions/{session_id}/${name}`,
    operationId: `${name}Session`,
    tag: 'replay',
    summary,
    description,
    curl: `"$api/api/replay/sessions/$session/${name}" ${CURL_BODIES[name] ?? '-X POST'}`,
    pathParameters: sessionId,
    body,
    success: { status: 200, description: 'The session as it is now.', content: { 'application/json': answer } },
    errors: [...COMMAND_ERRORS, 'event_not_found', 'busy'],
  };
}

const sessionsSchema = z.object({
  sessions: z.array(sessionSchema),
  next_cursor: z.string().nullable().meta({ description: 'cursor of the next page; null on the last page' }),
});

export const REPLAY_ENDPOINTS: readonly Endpoint[] = [
  {
    method: 'post',
    path: '/api/replay/sessions',
    operationId: 'createSession',
    tag: 'replay',
    summary: 'A session that plays a transaction',
    description:
      'Prepares the replay of one transaction, with its speed, extra latency, deadline and clock offsets. It ' +
      'returns the session, which is `ready` at the start of the transaction: nothing is sent before a command ' +
      'plays or steps it. `transaction_not_found` means that no event of the transaction is recorded, ' +
      '`session_limit` that another session has to be deleted first, and `invalid_body` names each field that is ' +
      'wrong.',
    curl: '"$api/api/replay/sessions" --json \'{"transaction_id": "order-1", "speed_factor": 0.5}\'',
    body: createRequest,
    success: {
      status: 201,
      description: 'The session, ready to be played.',
      content: oneSession,
      headers: { Location: 'address of the session, relative to that of the request' },
    },
    errors: [...BODY_ERRORS, 'transaction_not_found', 'session_limit', 'busy', 'shutting_down'],
  },
  {
    method: 'get',
    path: '/api/replay/sessions',
    operationId: 'listSessions',
    tag: 'replay',
    summary: 'All sessions',
    description:
      'Lists the sessions of all clients, also those that were kept when the daemon was restarted. A page of fewer ' +
      'than all sessions has a cursor for the next one; sessions that are made or deleted between pages do not ' +
      'shift others. `invalid_cursor` and `cursor_mismatch` mean that the cursor does not belong to this list and ' +
      'limit.',
    curl: '"$api/api/replay/sessions"',
    query: sessionsQuerySchema,
    success: {
      status: 200,
      description: 'The sessions as they are now, the oldest first.',
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
    description:
      'Returns the settings, the state and the position of a session, and changes nothing; `failure` says why the ' +
      'daemon stopped it by itself, if it did. `session_not_found` means that the session was deleted, ended after ' +
      'a long time without use, or never existed.',
    curl: '"$api/api/replay/sessions/$session"',
    pathParameters: sessionId,
    success: { status: 200, description: 'The session as it is now.', content: oneSession },
    errors: ['invalid_parameter', 'session_not_found', 'shutting_down'],
  },
  {
    method: 'patch',
    path: '/api/replay/sessions/{session_id}',
    operationId: 'changeSession',
    tag: 'replay',
    summary: 'Change a session as it plays',
    description:
      'Changes settings of a session, which keeps its position, and returns the session. New latency, events that ' +
      'get it and gaps apply from the next event on, while the session plays from the next one that is not ' +
      'due within 20 ms; a seek, or playing again from the start, lays the whole time line out with them. ' +
      '`invalid_transition` means that the session is stopped, `replay_capacity` that all sessions together would ' +
      'play too many events a second: the session then stays as it was.',
    curl: '-X PATCH "$api/api/replay/sessions/$session" --json \'{"speed_factor": 2, "extra_latency_ns": 5000000}\'',
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
    description:
      'Ends a session whatever its state, ends its streams, and forgets it. The answer has no content. ' +
      '`session_not_found` means that the session has already gone.',
    curl: '-X DELETE "$api/api/replay/sessions/$session"',
    pathParameters: sessionId,
    success: { status: 204, description: 'The session is gone.' },
    errors: ['invalid_parameter', 'session_not_found', 'shutting_down'],
  },
  buildCommandEndpoint({
    name: 'play',
    summary: 'Play on',
    description:
      'Starts a session, continues one that is paused, or plays one that is finished again from the start. It ' +
      'returns the session at once; the events come on the stream of the session as they fall due. ' +
      'With `until` it pauses by itself where its caller had the answer. ' +
      '`invalid_transition` means that the session is stopped, `replay_capacity` that all sessions together would ' +
      'play too many events a second.',
    body: playRequest,
  }),
  buildCommandEndpoint({
    name: 'pause',
    summary: 'Pause',
    description:
      'Holds a session that plays where it is, until it is played or stepped, and returns it; one that is ' +
      'paused stays so. `invalid_transition` means that the session has not begun, is finished or is stopped.',
    body: noFields,
  }),
  buildCommandEndpoint({
    name: 'stop',
    summary: 'Stop for good',
    description:
      'Ends the replay and the streams of a session, which can still be read but not be played again, and returns ' +
      'the session; stopping it twice is no error. `session_not_found` means that the session has already gone.',
    body: noFields,
  }),
  buildCommandEndpoint({
    name: 'seek',
    summary: 'Go to a place',
    description:
      'Moves a session to a position, a recorded time, an event or an index, of which exactly one is given, and ' +
      'sends nothing that lies between. It returns the session: one that plays goes on from the new place, one that ' +
      'was finished is `paused`, and one that is moved behind its last event is `finished`. `event_not_found` means ' +
      'that the transaction has no such event, `invalid_transition` that the session is stopped.',
    body: seekRequest,
  }),
  buildCommandEndpoint({
    name: 'step',
    summary: 'Send events now, or move back',
    description:
      'Sends the next events at once, whatever their time, and returns them with the session, which is then ' +
      '`paused`; a negative count moves back and sends nothing. A step is done completely or not at all. ' +
      '`invalid_transition` means that the session plays or is stopped, or that it is finished and the count is not ' +
      'negative; `event_not_found` means that retention has removed an event that was to be sent.',
    body: stepRequest,
    answer: z.object({ session: sessionSchema, events: z.array(replayedEventSchema) }),
  }),
  {
    method: 'get',
    path: '/api/replay/sessions/{session_id}/timeline',
    operationId: 'getTimeline',
    tag: 'replay',
    summary: 'When each event is played',
    description:
      'Lays out when each event of a session is played, with its extra latency and its deadline, and plays nothing. ' +
      'A long time line comes in parts, each with the index at which the next one begins, or as NDJSON in one ' +
      'stream. `not_acceptable` means that `Accept` allows neither form, `transaction_not_found` that no event of ' +
      'the transaction is recorded any more.',
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
    description:
      'Computes how long a transaction would have taken if each of its calls, or of its requests, had taken longer, ' +
      'once for each time that its caller waited, and which events would have ended after a deadline; `curve` is its duration with any latency. With `where` instead of ' +
      '`transaction_id` it returns the curves of all transactions that fit. It makes no session and plays nothing. ' +
      '`transaction_not_found` means that no event of the transaction is recorded, and `invalid_body` names each ' +
      'field that is wrong, and `too_many_events` that `where` asks for values of too many events; after `busy` try again.',
    curl: '"$api/api/replay/whatif" --json \'{"transaction_id": "order-1", "extra_latency_ns": 5000000, "timeout_ns": 250000000}\'',
    body: whatIfRequest,
    success: {
      status: 200,
      description: 'The duration with the latency, and the events after the deadline; with `where`, the curves.',
      content: { 'application/json': z.union([whatIfSchema, curvesSchema]) },
    },
    errors: [...BODY_ERRORS, 'transaction_not_found', 'too_many_events', 'shutting_down', 'busy', 'query_timeout'],
  },
  {
    method: 'get',
    path: '/api/replay/sessions/{session_id}/events',
    operationId: 'streamSession',
    tag: 'replay',
    summary: 'Events as they are played',
    description:
      'Follows a session with frames: `event` for an event, `state` at every change, `gap` when some were missed, and ' +
      '`end`; or without events with the position, see `frames`. `Last-Event-ID` continues behind a frame; after the ' +
      'daemon was started again a `gap` has `"missed": null`, and the `state` after it the place where the session goes on. ' +
      '`session_limit` means that the session has too many viewers, `session_not_found` that it has gone.',
    curl: '-N --max-time 5 "$api/api/replay/sessions/$session/events"',
    pathParameters: sessionId,
    query: streamParameters,
    headers: z.object({
      'Last-Event-ID': z
        .string()
        .optional()
        .meta({ description: 'id of the last frame seen; 0 for all frames that are still kept' }),
    }),
    success: {
      status: 200,
      description: 'Server-sent events.',
      content: { 'text/event-stream': 'frames with `event`, `id` and `data` in JSON' },
    },
    errors: ['invalid_parameter', 'session_not_found', 'shutting_down', 'transaction_not_found', 'session_limit'],
  },
];
