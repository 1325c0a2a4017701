/** Where a replay stops by itself: right behind the event of --until-event, or one that --break matches. */
import { parseEventId } from '../../../agent/recording/format/event_id.ts';
import { CommandError, RefusedError } from '../client/command_error.ts';
import type { Condition } from './condition.ts';
import type { PlayedEvent, RemoteSession } from './remote_session.ts';

export interface StopOptions {
  untilEvent?: string;
  break?: Condition;
}

export interface Stop {
  by: 'until' | 'break';
  /** Of the event that it stops behind. */
  index: number;
  /** For a person. */
  text: string;
}

/** Null: play on. */
export type StopRule = (played: PlayedEvent) => Stop | null;

export async function stopRule(session: RemoteSession, options: StopOptions): Promise<StopRule> {
  const { untilEvent, break: condition } = options;
  const isUntil = untilEvent === undefined ? () => false : await eventAt(session, untilEvent);
  return (played) => {
    const { index } = played.replay;
    if (condition?.matches(played)) return { by: 'break', index, text: `event ${index}: ${condition.text}` };
    if (isUntil(played)) return { by: 'until', index, text: `event ${index}: --until-event` };
    return null;
  };
}

/** Whether it can be one: an index from 0, or an event id. */
export function isEventPlace(text: string): boolean {
  return /^\d{1,9}$/.test(text) || parseEventId(text) !== undefined;
}

async function eventAt(session: RemoteSession, place: string): Promise<(played: PlayedEvent) => boolean> {
  const { event_count: count } = session.created;
  if (!parseEventId(place)) {
    const index = Number(place);
    if (index < count) return ({ replay }) => replay.index === index;
    throw new CommandError(`--until-event ${place}: the transaction has ${count} events, 0 to ${count - 1}`);
  }
  try {
    // A session that has not begun can go there and come back; its index may change with the latency.
    await session.send({ seek: { event_id: place } });
    await session.send({ seek: { event_index: 0 } });
    return ({ event_id }) => event_id === place;
  } catch (error) {
    if (!(error instanceof RefusedError) || error.code !== 'event_not_found') throw error;
    throw new CommandError(`--until-event ${place}: no event of this transaction`);
  }
}
