/** Event types, services and nodes of a transaction, to which a user can limit the extra latency. */
import type { LanesModel } from '../../model/lanes/model.ts';
import { OTHER } from '../../model/lanes/shares.ts';

export interface Choices {
  types: string[];
  services: string[];
  nodes: string[];
}

/** Number of possible event types, which are one byte each. */
const TYPE_IDS = 256;

/** Collects each list in the order in which its values first occur. */
export function collectChoices({ columns, shares }: Pick<LanesModel, 'columns' | 'shares'>): Choices {
  const { count, threads, recordings, thread, types, type } = columns;
  const threadsSeen = createSeenNumbers(threads.length);
  const typesSeen = createSeenNumbers(TYPE_IDS);
  for (let row = 0; row < count; row++) {
    if (shares[row] === OTHER) continue;
    threadsSeen.see(thread[row]!);
    typesSeen.see(type[row]!);
  }
  const seen = threadsSeen.found.map((at) => threads[at]!);
  return {
    // An event type without a name comes from a newer daemon. It is left out, because this page does not know its
    // name.
    types: typesSeen.found.map((id) => types.get(id)).filter((name) => name !== undefined),
    services: [...new Set(seen.map(({ service }) => service))],
    nodes: [...new Set(seen.map(({ recording }) => recordings[recording]!.node))],
  };
}

/**
 * Creates a list of distinct numbers below `limit`, in the order in which `see` first gets them. For a million
 * numbers, a Set would take ten times as long.
 */
function createSeenNumbers(limit: number) {
  const isSeen = new Uint8Array(limit);
  const found: number[] = [];
  return {
    found: found as readonly number[],
    see(value: number): void {
      if (isSeen[value]) return;
      isSeen[value] = 1;
      found.push(value);
    },
  };
}
