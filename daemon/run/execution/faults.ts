/** Adds intentional faults to a plan, beyond those of `--fail`: short writes, and calls that failed in production. */
import { EVENT_FLAGS, OPS } from '../format/plan_file.ts';
import type { DelayPlan } from '../plan/compile.ts';
import type { Incident } from '../plan/incident.ts';
import type { RecordedErrors } from '../plan/recorded_errors.ts';
import { faultLimitsOf, isChosen } from '../plan/rules.ts';
import type { ShortRule } from '../plan/short_rule.ts';

export interface Faults {
  short: readonly ShortRule[];
  /** If undefined, calls that failed in production are made. */
  errors: RecordedErrors | undefined;
}

export function withFaults(plan: DelayPlan, incident: Incident, { short, errors }: Faults): DelayPlan {
  if (short.length === 0 && !errors?.count) return plan;
  const events = {
    ...plan.events,
    error: Uint16Array.from(plan.events.error),
    flags: Uint16Array.from(plan.events.flags),
  };
  const { columns, count } = incident.calls;
  const places = eventsOfCalls(plan, incident);
  const shortening = plan.streams.map((stream) =>
    short.flatMap((rule, at) => (OPS[stream.op] < OPS.fsync && isChosen(rule, stream) ? [at] : [])),
  );
  const seen = short.map(() => 0);
  for (let call = 0; call < count; call++) {
    const at = places[call]!;
    const lane = columns.lane[call]!;
    for (const rule of shortening[incident.lanes.firstOf(lane)]!) {
      const { nth, matches } = short[rule]!;
      seen[rule]!++;
      if (nth !== undefined && nth !== seen[rule]) continue;
      events.flags[at]! |= EVENT_FLAGS.short_write | faultLimitsOf(matches);
    }
    const errno = errors?.errnoOf(incident.tidOf(incident.lanes.secondOf(lane)), columns.startNs[call]!) ?? 0;
    // An error that a rule chose takes precedence.
    if (events.error[at] !== 0 || errno === 0) continue;
    events.error[at] = errno;
    events.flags[at]! |= EVENT_FLAGS.own_call;
  }
  return { ...plan, events };
}

/**
 * Returns the event of each call in the plan. Slots of a stream are its lanes in order, and events of a slot its calls
 * in order.
 */
function eventsOfCalls({ streams, slots }: DelayPlan, { calls: { columns, count }, lanes }: Incident): Uint32Array {
  const nextSlot = streams.map(({ firstSlot }) => firstSlot);
  const slotOf = Uint32Array.from({ length: lanes.count }, (_, lane) => nextSlot[lanes.firstOf(lane)]!++);
  const nextEvent = slots.firstEvent.slice();
  const places = new Uint32Array(count);
  for (let call = 0; call < count; call++) places[call] = nextEvent[slotOf[columns.lane[call]!]!]!++;
  return places;
}
