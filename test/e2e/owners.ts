/** Who owns what was recorded, where a busy machine may have cost some of it. */
import type { ApiEvent } from '../../bpf/schema/api.ts';
import type { Recorded } from '../kernel/recorded_run.ts';

/** The kernel may not show an event's end, and others may fill the rings; the agent counts both. */
export const lostOf = (recorded: Recorded) => recorded.losses().reduce((sum, { lost }) => sum + lost, 0);

/** A missed end costs one event, and anything else maybe a label: then nobody may own what is somebody's. */
export const knowsOwners = (recorded: Recorded) => recorded.losses().every(({ cause }) => cause === 'end_missed');

/** Each of the owners has some of the events, and nobody else has. `service transaction quality`, in order. */
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
