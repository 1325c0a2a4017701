/** Checks the owners of recorded events, allowing for events that a busy machine loses. */
import type { ApiEvent } from '../../bpf/schema/api.ts';
import { isMissedEnd } from '../kernel/missed_ends.ts';
import type { Recorded } from '../kernel/recorded_run.ts';

/** Losses that the agent counts: the kernel may not show an event's end, and other processes may fill the rings. */
export const lostOf = (recorded: Recorded) => recorded.losses().reduce((sum, { lost }) => sum + lost, 0);

/** Whether no label can be lost: a missed end costs one event only, any other loss may leave events without owner. */
export const knowsOwners = (recorded: Recorded) => recorded.losses().every(isMissedEnd);

/** Expects that exactly these owners have events. `owners` contains `service transaction quality`, sorted. */
export function expectOwners(recorded: Recorded, events: readonly ApiEvent[], owners: readonly string[]): void {
  const found = new Set(
    (knowsOwners(recorded) ? events : events.filter(isKnown)).map(({ service_name, transaction_id, attribution }) =>
      [service_name, transaction_id, attribution.quality].join(' '),
    ),
  );
  if (knowsOwners(recorded)) expect([...found].sort()).toEqual(owners);
  else expect(owners).toEqual(expect.arrayContaining([...found]));
}

const isKnown = ({ service_name, transaction_id }: ApiEvent) => service_name !== 'unknown' && transaction_id !== null;
