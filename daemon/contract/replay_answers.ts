/** Schemas of sessions, time lines and projections in the answers of the replay endpoints. */

import { z } from 'zod';
import { apiEventSchema, int64 } from '../../bpf/schema/api.ts';
import { coverageSchema } from './coverage_schema.ts';
import { UNTIL } from './replay_requests.ts';
import { STATES } from './transitions.ts';
import { count, dateTime, durationNs } from './values.ts';
import { OFFSET_SOURCES } from './words.ts';

const clockSchema = z
  .array(
    z.object({
      node: z.string(),
      offset_ns: int64().meta({ description: 'offset that is added to the times of its clock, nanoseconds' }),
      stepped_ns: durationNs(
        'total size of all steps of its clock, forward or back, while the transaction ran, as recorded',
      ),
      source: z.enum(OFFSET_SOURCES).meta({
        description:
          'source of the offset: the caller, a measurement of the fleet, or none (the offset is 0: times are those of the node)',
      }),
      uncertainty_ns: durationNs('how far a measured offset may be off; null for other offsets').nullable(),
    }),
  )
  .meta({ description: 'clock of each node that recorded a part of the transaction' });

const onlySchema = z
  .object({
    event_type: z.array(z.string()).optional(),
    service: z.array(z.string()).optional(),
    node: z.array(z.string()).optional(),
  })
  .meta({
    description: 'events that get the extra latency: those that fit each list; only calls if there is no event_type',
  });

export const sessionSchema = z
  .object({
    session_id: z.string(),
    transaction_id: z.string(),
    speed_factor: z.number(),
    extra_latency_ns: durationNs('latency that is added to every call, or to the events that fit `only`'),
    timeout_ns: durationNs("a caller's deadline, from the start").nullable(),
    max_gap_ns: durationNs('the longest gap in which nothing is under way').nullable(),
    only: onlySchema,
    clock: clockSchema,
    loop: z.boolean().meta({ description: 'whether the replay begins again at its end' }),
    state: z.enum(STATES),
    position_ns: durationNs("time from the first event, on the replay's own time line"),
    duration_ns: durationNs(
      "duration of its own events, as recorded; by the nodes' own clocks until all events have been looked at",
    ),
    replay_duration_ns: durationNs(
      'duration with the extra latency, before speed_factor; null until all events have been looked at',
    ).nullable(),
    replay_end_ns: durationNs(
      'end of its last event, which may be write-back long after its own events; null like replay_duration_ns',
    ).nullable(),
    event_index: count('index of the next event; the event count when none is left'),
    event_count: count('events of the transaction'),
    times_out: z
      .boolean()
      .nullable()
      .meta({ description: 'whether one of its own events would end after the deadline; null until that is known' }),
    timeout_event_id: z.string().nullable(),
    rounds: count('number of times that the replay reached its end and began again'),
    until: z.literal(UNTIL).nullable().meta({
      description:
        'place at which the session will pause by itself, as play requested; null if it plays to its end, as far as that is known, or does not play',
    }),
    starts_at_ns: int64().nullable().meta({
      description:
        'time at which its clock was or will be started, on the clock of due_ns; null while its clock stands still',
    }),
    lateness: z
      .object({
        p50_ns: z.number(),
        p99_ns: z.number(),
        max_ns: int64(),
        late_events: count('events that were sent more than 1 ms later than due'),
      })
      .meta({ description: 'how late events were sent after they were due' }),
    starvations: count('number of times that an event was due before it had been read'),
    failure: z
      .string()
      .nullable()
      .meta({ description: 'why the daemon stopped the session by itself, or is unable to play it any more' }),
    last_event_id: count(
      'id of the newest frame of its stream before this answer: the `Last-Event-ID` to read on from here',
    ),
    created_at: dateTime('when the session was created'),
    updated_at: dateTime('when the session was last changed'),
  })
  .meta({ id: 'session' });

const replaySchema = z.object({
  index: count('place in the order of the replay'),
  offset_ns: durationNs("time from the start, on the replay's own time line"),
  due_ns: durationNs("when it was due, on the daemon's steady clock"),
  lateness_ns: durationNs('how much later than due it was sent'),
  duration_ns: durationNs('duration with the extra latency'),
  after_timeout: z
    .boolean()
    .meta({ description: 'whether the event ends after the deadline, and its caller waits for it' }),
});

const [sysWriteSchema, blockIoSchema, sysSyncSchema] = apiEventSchema.options;

export const replayedEventSchema = z.discriminatedUnion('event_type', [
  sysWriteSchema.extend({ replay: replaySchema }).meta({ id: 'replayed_sys_write' }),
  blockIoSchema.extend({ replay: replaySchema }).meta({ id: 'replayed_block_io' }),
  sysSyncSchema.extend({ replay: replaySchema }).meta({ id: 'replayed_sys_sync' }),
]);

const scheduled = {
  replay_offset_ns: durationNs("time from the start, on the replay's own time line"),
  replay_duration_ns: durationNs('duration with the extra latency'),
};
const inTimeline = {
  replay_index: count('place in the order of the replay'),
  ...scheduled,
  after_timeout: z
    .boolean()
    .meta({ description: 'whether the event ends after the deadline, and its caller waits for it' }),
};

export const timelineSchema = z.object({
  events: z.array(
    z.discriminatedUnion('event_type', [
      sysWriteSchema.extend(inTimeline).meta({ id: 'scheduled_sys_write' }),
      blockIoSchema.extend(inTimeline).meta({ id: 'scheduled_block_io' }),
      sysSyncSchema.extend(inTimeline).meta({ id: 'scheduled_sys_sync' }),
    ]),
  ),
  next_event_index: count('index at which the next part begins; null after the last part').nullable(),
});

const curveSchema = z
  .array(
    z.object({
      events: count('number of latencies that delay this end'),
      end_ns: durationNs('end without latency, from the start'),
    }),
  )
  .min(1)
  .meta({
    description:
      'the duration with any extra latency is the largest of end_ns + events * latency, exactly; by events ascending and end_ns descending, so the first end_ns is the duration without. A deadline is missed from the smallest of these latencies on: 0 for a line whose end_ns is later than it, else floor((timeout - end_ns) / events) + 1 if it has events',
  });

export const curvesSchema = z.object({
  extra_latency_ns: durationNs('extra latency that times_out_count refers to'),
  timeout_ns: durationNs("a caller's deadline, from the start, for the counts").nullable(),
  transaction_count: count('transactions of this answer'),
  recorded_times_out_count: count('how many of them took longer than the deadline; 0 without one'),
  times_out_count: count('how many of them would take longer with the extra latency; 0 without a deadline'),
  are_more: z.boolean().meta({
    description:
      'whether more transactions fit: these are the newest 10,000, or fewer if the answer would exceed 8 MiB',
  }),
  transactions: z
    .array(z.object({ transaction_id: z.string(), curve: curveSchema }))
    .meta({ description: 'transactions, the newest first' }),
  coverage: coverageSchema,
});

export const whatIfSchema = z.object({
  transaction_id: z.string(),
  extra_latency_ns: durationNs('latency that is added to every call, or to the events that fit `only`'),
  timeout_ns: durationNs("a caller's deadline, from the start").nullable(),
  clock: clockSchema,
  event_count: count('events of the transaction'),
  written_back_count: count(
    'how many of these write its data back to disk, mostly later: no duration includes them, and none is late',
  ),
  affected_count: count('events that get the latency'),
  duration_ns: durationNs('duration of its own events, as recorded'),
  replay_duration_ns: durationNs('duration of its own events with the extra latency'),
  curve: curveSchema,
  times_out: z.boolean().meta({ description: 'whether one of its own events would end after the deadline' }),
  in_progress_times_out: z.boolean().nullable().meta({
    description:
      'whether one of its calls is in progress and has not ended by the deadline, see coverage.in_progress; null where that is not known, because the clocks of its nodes may differ or only the number of calls is known',
  }),
  after_timeout_count: count('events that would end after the deadline'),
  smallest_latency_ns: durationNs(
    'smallest extra latency with which one of its own events would end after the deadline; null when there is none',
  ).nullable(),
  after_timeout: z.array(
    z.discriminatedUnion('event_type', [
      sysWriteSchema.extend(scheduled).meta({ id: 'late_sys_write' }),
      blockIoSchema.extend(scheduled).meta({ id: 'late_block_io' }),
      sysSyncSchema.extend(scheduled).meta({ id: 'late_sys_sync' }),
    ]),
  ),
  coverage: coverageSchema,
});
