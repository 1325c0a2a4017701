/** Joins the calls and requests that are in progress in several recordings. */
import type { UnendedLists } from '../../agent/recording/read/unended.ts';
import type { UnendedEvents } from './store.ts';

export interface UnendedOfRecording extends UnendedLists {
  node: string;
  /** End time of the recording. */
  untilNs: bigint;
  /** Whether an agent still records into the recording. */
  isOpen: boolean;
}

/**
 * Joins the lists of all recordings. Calls and requests that are in progress at the end of a recording count as lost if
 * the node has a later recording.
 */
export function joinUnended(all: readonly UnendedOfRecording[]): UnendedEvents {
  const joined: UnendedEvents = { events: [], lost: [], unlisted: [] };
  const latest = new Map<string, bigint>();
  for (const { node, untilNs } of all) if (untilNs > (latest.get(node) ?? -1n)) latest.set(node, untilNs);
  for (const { node, untilNs, isOpen, events, lost, unlisted } of all) {
    const isOver = !isOpen && latest.get(node)! > untilNs;
    const told = events.map((event) => ({ ...event, node, untilNs }));
    (isOver ? joined.lost : joined.events).push(...told);
    joined.lost.push(...lost.map((event) => ({ ...event, node, untilNs: event.timestamp_ns })));
    if (unlisted.count > 0) joined.unlisted.push({ node, untilNs, isLost: isOver, ...unlisted });
  }
  return joined;
}
