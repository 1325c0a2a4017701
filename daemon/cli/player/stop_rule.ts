/** Determines after which event a replay stops: the event of --until-event, or an event that matches --break. */
import { parseEventId } from '../../base/event_id.ts';
import { CommandError, RefusedError } from '../client/command_error.ts';
import type { BreakCondition } from './condition.ts';
import type { ExactPlayedEvent, RemoteSession } from './remote_session.ts';

export interface StopOptions {
  untilEvent?: string;
  break?: BreakCondition;
}

export interface Stop {
  by: 'until' | 'break';
  /** Index of the event after which the replay stops. */
  index: number;
  /** Description for the user. */
  text: string;
}

/** Decides whether to stop after a played event; returns null to continue. */
export type StopRule = (played: ExactPlayedEvent) => Stop | null;

export async function stopRule(session: RemoteSession, options: StopOptions): Promise<StopRule> {
  const { untilEvent, break: condition } = options;
  const isUntil = untilEvent === undefined ? () => false : await createEventMatcher(session, untilEvent);
  return (played) => {
    const { index } = played.replay;
    if (condition?.matches(played)) return { by: 'break', index, text: `event ${index}: ${condition.text}` };
    if (isUntil(played)) return { by: 'until', index, text: `event ${index}: --until-event` };
    return null;
  };
}

/** Returns whether the text has the form of an event's index or an event id. */
export function isEventPlace(text: string): boolean {
  return /^\d{1,9}$/.test(text) || parseEventId(text) !== undefined;
}

async function createEventMatcher(
  session: RemoteSession,
  place: string,
): Promise<(played: ExactPlayedEvent) => boolean> {
  const { event_count: count } = session.created;
  if (!parseEventId(place)) {
    const index = Number(place);
    if (index < count) return ({ replay }) => replay.index === index;
    throw new CommandError(`--until-event ${place}: the transaction has ${count} events, 0 to ${count - 1}`);
  }
  try {
    // To check the id before the session begins, seeks to the event and back. The event's index is not kept, because it
    // may change with the latency.
    await session.send({ seek: { event_id: place } });
    await session.send({ seek: { event_index: 0 } });
    return ({ event_id }) => event_id === place;
  } catch (error) {
    if (!(error instanceof RefusedError) || error.code !== 'event_not_found') throw error;
    throw new CommandError(`--until-event ${place}: no event of this transaction`);
  }
}
