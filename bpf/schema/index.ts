import { blockIo } from './block_io.ts';
import { sysSync } from './sys_sync.ts';
import { sysWrite } from './sys_write.ts';

/** All event types. Code that depends on the event type iterates over this list or infers its types from it. */
export const EVENTS = [sysWrite, blockIo, sysSync] as const;

export type EventDefinition = (typeof EVENTS)[number];
export type EventType = EventDefinition['name'];

export const EVENT_TYPES: readonly EventType[] = EVENTS.map((event) => event.name);

export function findEventDefinition(id: number): EventDefinition | undefined {
  return EVENTS.find((event) => event.id === id);
}
