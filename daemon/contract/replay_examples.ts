/** Examples of what the replay endpoints take and answer. */
import { stringify } from '../base/exact_json.ts';
import type { Example } from './endpoint.ts';
import { FIRST_WRITE, LAST_WRITE, NODE, RECORDED_UNTIL_NS, SECOND_WRITE, SYNC } from './recorded_examples.ts';

const CLOCK = [{ node: NODE, offset_ns: 0, stepped_ns: 0, source: 'none', uncertainty_ns: null }];

const COVERAGE = {
  complete: true,
  lost: 0,
  gaps: [],
  recorded_until: RECORDED_UNTIL_NS,
  nodes: [{ node: NODE, recorded_until: RECORDED_UNTIL_NS }],
};

const SESSION = {
  session_id: '1fe759e1-b879-4c56-9e4c-b43bd0b65c3b',
  transaction_id: 'order-1',
  speed_factor: 0.5,
  extra_latency_ns: 0,
  timeout_ns: null,
  max_gap_ns: null,
  only: {},
  clock: CLOCK,
  loop: false,
  state: 'ready',
  position_ns: 0,
  duration_ns: 247_091_200,
  replay_duration_ns: 247_091_200,
  replay_end_ns: 5_120_896_000,
  event_index: 0,
  event_count: 6,
  times_out: false,
  timeout_event_id: null,
  rounds: 0,
  until: null,
  starts_at_ns: null,
  lateness: { p50_ns: 0, p99_ns: 0, max_ns: 0, late_events: 0 },
  starvations: 0,
  failure: null,
  last_event_id: 0,
  created_at: '2025-11-21T00:00:00.000Z',
  updated_at: '2025-11-21T00:00:00.000Z',
};

const CHANGED = {
  ...SESSION,
  speed_factor: 2,
  extra_latency_ns: 5_000_000,
  replay_duration_ns: 259_224_000,
  replay_end_ns: 5_125_896_000,
  last_event_id: 1,
};

const PAUSED = {
  ...CHANGED,
  state: 'paused',
  position_ns: 185_928_210,
  event_index: 4,
  lateness: { p50_ns: 1_023_999, p99_ns: 2_283_916, max_ns: 2_283_916, late_events: 3 },
  last_event_id: 6,
};

const FIRST_PLAYED = {
  ...FIRST_WRITE,
  replay: {
    index: 0,
    offset_ns: 0,
    due_ns: 43_348_310_658_584,
    lateness_ns: 0,
    duration_ns: 38_400,
    after_timeout: false,
  },
};

const SECOND_PLAYED = {
  ...SECOND_WRITE,
  replay: {
    index: 1,
    offset_ns: 2_048_000,
    due_ns: 43_348_310_658_584,
    lateness_ns: 0,
    duration_ns: 64_000,
    after_timeout: false,
  },
};

const TIMELINE = [
  {
    ...FIRST_WRITE,
    replay_index: 0,
    replay_offset_ns: 0,
    replay_duration_ns: 38_400,
    after_timeout: false,
  },
  {
    ...SYNC,
    replay_index: 2,
    replay_offset_ns: 2_176_000,
    replay_duration_ns: 242_304_000,
    after_timeout: false,
  },
];

const STEPPED = { ...SESSION, state: 'paused', event_index: 1, last_event_id: 1 };

const STREAM = `retry: 2000

event: event
id: 1
data: ${stringify(FIRST_PLAYED)}

event: state
id: 2
data: ${stringify(STEPPED)}

`;

const buildSessionExample = (view: object, body?: object): Example => ({
  ...(body && { body }),
  answers: { 'application/json': view },
});

export const REPLAY_EXAMPLES: Readonly<Record<string, Example>> = {
  createSession: buildSessionExample(SESSION, { transaction_id: 'order-1', speed_factor: 0.5 }),
  listSessions: { answers: { 'application/json': { sessions: [SESSION], next_cursor: null } } },
  getSession: buildSessionExample(SESSION),
  changeSession: buildSessionExample(CHANGED, { speed_factor: 2, extra_latency_ns: 5_000_000 }),
  playSession: buildSessionExample(
    { ...CHANGED, state: 'playing', until: 'replay_duration_ns', last_event_id: 2 },
    { until: 'replay_duration_ns' },
  ),
  pauseSession: buildSessionExample(PAUSED, {}),
  stopSession: buildSessionExample({ ...PAUSED, state: 'stopped', last_event_id: 8 }, {}),
  seekSession: buildSessionExample({ ...SESSION, last_event_id: 1 }, { event_index: 0 }),
  stepSession: {
    body: { count: 2 },
    answers: {
      'application/json': {
        session: { ...SESSION, state: 'paused', position_ns: 2_048_000, event_index: 2, last_event_id: 4 },
        events: [FIRST_PLAYED, SECOND_PLAYED],
      },
    },
  },
  getTimeline: {
    answers: {
      'application/json': { events: TIMELINE, next_event_index: null },
      'application/x-ndjson': TIMELINE.map((event) => `${stringify(event)}\n`).join(''),
    },
  },
  whatIf: {
    body: { transaction_id: 'order-1', extra_latency_ns: 5_000_000, timeout_ns: 250_000_000 },
    answers: {
      'application/json': {
        transaction_id: 'order-1',
        extra_latency_ns: 5_000_000,
        timeout_ns: 250_000_000,
        clock: CLOCK,
        event_count: 6,
        written_back_count: 1,
        affected_count: 6,
        duration_ns: 247_091_200,
        replay_duration_ns: 259_224_000,
        curve: [
          { events: 2, end_ns: 247_091_200 },
          { events: 3, end_ns: 244_224_000 },
        ],
        times_out: true,
        in_progress_times_out: false,
        after_timeout_count: 3,
        smallest_latency_ns: 1_454_401,
        after_timeout: [
          { ...SYNC, replay_offset_ns: 7_176_000, replay_duration_ns: 247_304_000 },
          { ...LAST_WRITE, replay_offset_ns: 252_040_000, replay_duration_ns: 5_051_200 },
        ],
        coverage: COVERAGE,
      },
    },
  },
  streamSession: { answers: { 'text/event-stream': STREAM } },
};
