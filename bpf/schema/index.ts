import { blockIo } from './block_io.ts';
import { sysSync } from './sys_sync.ts';
import { sysWrite } from './sys_write.ts';

/** Every event type there is. Everything that knows an event type iterates over this or infers from it. */
export const EVENTS = [sysWrite, blockIo, sysSync] as const;

export type EventDefinition = (typeof EVENTS)[number];
export type EventType = EventDefinition['name'];

export const EVENT_TYPES: readonly EventType[] = EVENTS.map((event) => event.name);

export function eventById(id: number): EventDefinition | undefined {
  return EVENTS.find((event) => event.id === id);
}
